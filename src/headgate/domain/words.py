"""Words of names, and what leads from a piece of text to them: tails of phrases, suffixes of words, likeness.

Pure text. Separators and case mean nothing here: `shop.public.OrderItems` is `shop public orderitems`, and also
`shop public order items`. Where the words are kept and who looks for them is not known here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

MAX_WORD: Final = 64
MAX_WORDS: Final = 40
MAX_TAIL: Final = 96
MAX_TOKENS: Final = 8
# A word longer than this is a hash as often as not; text that begins later in it is not looked for.
MAX_STARTS: Final = 24
LIKENESS: Final = 0.7

IN_LAST_PART: Final = 0
IN_NAME: Final = 1
IN_NAMESPACE: Final = 2

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_LONG = 7
_SHORT = 5
_COMPARED = 24


class Key(NamedTuple):
    """The rest of a phrase from one of its words on, and how much it counts that a search begins there."""

    rank: int
    tail: str


def words(text: str) -> list[str]:
    """Runs of letters and digits of any script, in one case, cut where they are very long."""
    if text.isascii():
        return [word[:MAX_WORD] for word in _ASCII_WORD.findall(text.lower())]
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return [word[:MAX_WORD] for word in "".join(map(_letter_or_blank, folded)).split(" ") if word]


def _letter_or_blank(char: str) -> str:
    # Marks belong to the letter before them: without vowel signs a Hindi word would fall apart.
    return char if char.isalnum() or unicodedata.category(char)[0] == "M" else " "


def phrase(text: str) -> str:
    return " ".join(words(text))


def tokens(text: str) -> list[str]:
    """The different words of what somebody typed; a few of them say it all."""
    return list(dict.fromkeys(words(text)))[:MAX_TOKENS]


def last_part(name: str) -> str:
    """The folder of a path, the table of a schema: what people call it among themselves."""
    separator = "/" if "/" in name else "."
    return name.rstrip("/").rpartition(separator)[2] or name


def keys_of(namespace: str, name: str) -> set[Key]:
    """Every place in a name at which a search may begin."""
    found: set[Key] = set()
    for spelled in spellings(name):
        found.update(_keys(words(namespace), words(spelled), len(words(last_part(spelled)))))
    return found


def spellings(name: str) -> tuple[str, ...]:
    """The name and, if it has humps, the same with each hump as a word of its own."""
    humped = split_humps(name) if any(map(str.isupper, name)) else name
    return (name,) if humped == name else (name, humped)


def _keys(namespace: Sequence[str], name: Sequence[str], in_last_part: int) -> Iterator[Key]:
    every = [*namespace, *name]
    last = len(every) - in_last_part
    for begin in range(max(0, len(every) - MAX_WORDS), len(every)):
        rank = IN_NAMESPACE if begin < len(namespace) else IN_LAST_PART if begin == last else IN_NAME
        yield Key(rank, " ".join(every[begin:])[:MAX_TAIL].rstrip())


def split_humps(text: str) -> str:
    """`OrderItems` as `Order Items`, `HTTPServer` as `HTTP Server`."""
    parts: list[str] = []
    for place, char in enumerate(text):
        before, after = text[place - 1 : place], text[place + 1 : place + 2]
        if char.isupper() and (before.islower() or before.isdigit() or (before.isupper() and after.islower())):
            parts.append(" ")
        parts.append(char)
    return "".join(parts)


def first_words(keys: Iterable[Key]) -> set[str]:
    return {key.tail.partition(" ")[0] for key in keys}


def suffixes(word: str) -> list[str]:
    """What a word can be found by from its inside: itself, and its ends that say something."""
    ends = (word[begin:] for begin in range(1, min(len(word), MAX_STARTS)))
    return [word, *filter(says_something, ends)]


def says_something(token: str) -> bool:
    """Whether it is worth looking for inside words. In scripts without word breaks one letter may be a word."""
    return len(token) > 1 or not token.isascii()


def after(prefix: str) -> str:
    """The end of everything that begins with `prefix`, in the order of code points."""
    return prefix + "\U0010ffff"


def after_word(word: str) -> str:
    """The end of every phrase whose first word is `word`: a blank sorts before all letters."""
    return word + "!"


def pieces(token: str) -> list[str]:
    """Parts of a mistyped word of which some are likely to be right."""
    size = 4 if len(token) >= _LONG else 3 if len(token) > _SHORT else 2
    return list(dict.fromkeys(token[at : at + size] for at in range(max(1, len(token) - size + 1))))


def can_be_mistyped(token: str) -> bool:
    """Numbers that look alike have nothing to do with each other, and short words are like anything."""
    return len(token) > 2 and not token.isdigit()


def alike(token: str, candidates: Iterable[str], count: int, least: float = LIKENESS) -> list[tuple[str, float]]:
    """Those candidates that somebody who typed `token` may have meant, likeliest first."""
    wanted = _pairs(token)
    shared = sorted(candidates, key=lambda word: (-_overlap(wanted, _pairs(word)), word))[:_COMPARED]
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(token)
    found = []
    for word in shared:
        matcher.set_seq1(word)
        if (ratio := matcher.ratio()) >= least:
            found.append((word, ratio))
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:count]


def _pairs(word: str) -> set[str]:
    return {word[at : at + 2] for at in range(max(1, len(word) - 1))}


def _overlap(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other)
