"""Texts of others without what looks like a credential: errors repeat the address and the options of a connection.

Goes by how credentials are written, as nobody has told us which there are. What is masked in doubt is a word less to
read; what is not goes to every channel.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
_NAMES: Final = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|token|(?:api|access|account|private|secret|signing)[._-]?key|credentials?)"
)
# What has a name that says so: up to where the next option, argument or word begins.
_VALUE: Final = r"(?!\*\*\*)(?:\"[^\"]*\"?|'[^']*'?|[^\s;&\"']+)"
_MASKED: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), becomes)
    for pattern, becomes in (
        # user:password@ in addresses, and how Oracle writes it.
        (r"(://[^\s/:@]{0,200}:)[^\s/]{1,500}@", rf"\1{MASK}@"),
        (r"(jdbc:oracle:[a-z]{1,20}:[^\s/@]{1,200}/)[^\s@]{1,500}@", rf"\1{MASK}@"),
        # Between the semicolons of JDBC there may be blanks.
        (r"(;\s{0,3}(?:password|pwd)=)[^;\n]{1,200}(?=;)", rf"\1{MASK}"),
        (rf"({_NAMES}(?:\.[a-z0-9.-]{{1,200}})?[\"']?\s{{0,3}}=\s{{0,3}}){_VALUE}", rf"\1{MASK}"),
        # In JSON, and in what Python prints of a dictionary.
        (rf"([\"'][\w.-]{{0,100}}{_NAMES}[\"']\s{{0,3}}:\s{{0,3}}){_VALUE}", rf"\1{MASK}"),
        (r"([?&;]sig=)[^\s;&\"']+", rf"\1{MASK}"),
        (r"(\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:basic|bearer|token)\s{1,3})[^\s\"',;]+", rf"\1{MASK}"),
        (r"(\bbearer\s{1,3})(?=[a-z._~+/=-]{0,40}\d)[\w.~+/=-]{8,}", rf"\1{MASK}"),
    )
) + tuple(
    (re.compile(pattern), MASK)
    for pattern in (
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bhg_(?:live|invite)_[\w-]{20,}",
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    )
)


def without_credentials(text: str) -> str:
    """The text with *** for passwords, tokens and keys.

    >>> without_credentials("cannot reach postgres://ann:hunter2@db/shop")
    'cannot reach postgres://ann:***@db/shop'
    >>> without_credentials("login failed: user=ann password=hunter2")
    'login failed: user=ann password=***'
    """
    for pattern, becomes in _MASKED:
        text = pattern.sub(becomes, text)
    return text
