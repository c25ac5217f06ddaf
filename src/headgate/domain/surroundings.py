"""Whether an error is of what a run needs around it, such as network, credentials, memory: then its data is not why."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = re.compile(
    r"""
      authentication\ failed | access\ (is\ )?denied | permission\ denied | unauthori[sz]ed | forbidden
    | not\ authori[sz]ed | (invalid|expired|missing)\ (access\ )?(token|credentials?|password|api\ key)
    | (token|credentials?)\ (has\ |have\ )?expired | AccessControlException | AuthenticationException
    | InvalidClientTokenId | SignatureDoesNotMatch | connection\ (was\ )?(refused|reset|timed\ out|closed)
    | (could\ not|cannot|failed\ to|unable\ to)\ connect | unknown\ ?host | name\ or\ service\ not\ known
    | temporary\ failure\ in\ name\ resolution | no\ route\ to\ host | network\ is\ unreachable
    | ConnectException | SocketTimeoutException | certificate\ verify\ failed | SSLHandshakeException
    | service\ unavailable | bad\ gateway | too\ many\ connections | rate\ limit | throttl | quota\ exceeded
    | SlowDown | no\ space\ left | disk\ (is\ )?full | out\ ?of\ ?memory | java\ heap\ space
    | gc\ overhead\ limit | exit\ code:?\ 137 | killed\ by\ (signal|yarn|the\ oom) | executor\ lost
    | ExecutorLostFailure | spot\ (instance\ )?(was\ )?(interrupt|reclaim) | preempted | ModuleNotFoundError
    | ClassNotFoundException | NoClassDefFoundError | command\ not\ found
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_of_surroundings(error: str | None) -> bool:
    """
    >>> is_of_surroundings("FATAL: password authentication failed for user 'etl'")
    True
    >>> is_of_surroundings("java.lang.OutOfMemoryError: Java heap space")
    True
    >>> is_of_surroundings("cannot resolve column 'email'"), is_of_surroundings(None)
    (False, False)
    """
    return error is not None and _WORDS.search(error) is not None
