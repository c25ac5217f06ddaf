"""The way out: requests to addresses that users name, to public ones only.

Whoever may write a rule must not be able to make the server speak to its own network. A name is looked up once, every
address of it is checked, and the connection goes to an address that was: a name that answers otherwise the next time
leads nowhere. Redirects are not followed. A proxy of the environment is not used, as it would look names up itself.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple, TypeAlias

import httpx

from headgate.messages.failures import in_words
from headgate.messages.silence import unlogged
from headgate.settings import Network

TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 4096
_MAX_ADDRESSES = 4

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

# Besides what the registries of special addresses say; the last two speak for the machines of a cloud.
_REFUSED = tuple(
    ip_network(each)
    for each in (
        *("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4"),
        *("::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "fec0::/10", "3fff::/20", "5f00::/16"),
    )
)
_METADATA = frozenset(
    ip_address(each)
    for each in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254")
)
_NAT64 = ip_network("64:ff9b::/96")


class Refused(Exception):
    """A target that nothing is sent to; trying again does not help."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Unreachable(Exception):
    """A target that gave no answer; it may later."""


class Answer(NamedTuple):
    """What a target said, at most its beginning."""

    status_code: int
    body: str
    retry_after_s: float | None


async def look_up(host: str, port: int) -> Sequence[str]:
    """Every address of a name, as the system finds them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class Guard:
    """Says where nothing may be sent. `allowed` are networks that are fine although they are not public."""

    def __init__(self, allowed: Sequence[Network] = (), *, resolve: Resolve = look_up) -> None:
        self._allowed = tuple(allowed)
        self._resolve = resolve

    async def addresses(self, host: str, port: int) -> list[str]:
        """Where the name leads, every address checked; Refused if one of them is not public."""
        try:
            found = (await self._resolve(host, port))[:_MAX_ADDRESSES]
        except (socket.gaierror, UnicodeError) as error:
            raise Unreachable(f"the name {host!r} is not known") from error
        if not found:
            raise Unreachable(f"the name {host!r} has no address")
        for each in found:
            self._check(host, ip_address(each.partition("%")[0]))
        return list(found)

    def check_literal(self, host: str) -> None:
        """Refuse what is an address already, in whatever spelling, or can only be this machine. Looks nothing up."""
        if "%" in host:
            raise Refused(
                f"{host!r} has a % in it: a zone of this machine's own networks, or what no name has",
                hint="write the name, or the address without a zone",
            )
        if host.rstrip(".").lower() == "localhost" or host.rstrip(".").lower().endswith(".localhost"):
            self._check(host, ip_address("127.0.0.1"))
            return
        try:
            # The system also takes 0x7f.1, 2130706433 and the like for addresses.
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (socket.gaierror, UnicodeError):
            return
        for each in found:
            self._check(host, ip_address(str(each[4][0]).partition("%")[0]))

    def _check(self, host: str, address: Address) -> None:
        if all(is_public(each) or self._is_allowed(each) for each in _meanings(address)):
            return
        raise Refused(
            f"{host!r} leads to {address}, which is not a public address",
            hint="use a public address, or have whoever runs this server allow the network by"
            " HEADGATE_ALERT_ALLOW_PRIVATE",
        )

    def _is_allowed(self, address: Address) -> bool:
        fits = [each for each in self._allowed if each.version == address.version and address in each]
        # What a cloud tells its machines is not in any network by accident: it has to be named.
        return any(each.num_addresses == 1 for each in fits) if address in _METADATA else bool(fits)


def is_public(address: Address) -> bool:
    """Whether anybody on the Internet may be meant."""
    if address in _METADATA or not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address.version == each.version and address in each for each in _REFUSED)


def _meanings(address: Address) -> Iterator[Address]:
    """The address that a packet ends up at: IPv6 has several ways to write one of IPv4."""
    if isinstance(address, IPv4Address):
        yield address
    elif address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address in _NAT64:
        yield IPv4Address(address.packed[-4:])
    else:
        yield address


class Outbound:
    """Posts to where users want it, if the guard lets it."""

    def __init__(self, guard: Guard, *, timeout_s: float = TIMEOUT_S, verify: ssl.SSLContext | None = None) -> None:
        self.guard = guard
        self.timeout_s = timeout_s
        self._verify = verify

    async def post(self, url: str, content: bytes, headers: Mapping[str, str]) -> Answer:
        """Post once and read the beginning of the answer; Refused or Unreachable if there is none."""
        try:
            target = httpx.URL(url)
        except (httpx.InvalidURL, ValueError):
            raise Refused("the url is no valid URL", hint="write https://host/path") from None
        if target.scheme not in ("http", "https") or not target.raw_host:
            raise Refused("the url has no host, or is of another scheme", hint="write https://host/path")
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._post(target, content, headers)
        except TimeoutError:
            raise Unreachable(f"no answer within {self.timeout_s:g} s") from None

    async def _post(self, target: httpx.URL, content: bytes, headers: Mapping[str, str]) -> Answer:
        port = target.port or (443 if target.scheme == "https" else 80)
        found = await self.guard.addresses(_name(target), port)
        with unlogged():
            for last, address in _marked(found):
                try:
                    return await self._exchange(target, address, content, headers)
                except httpx.ConnectError as error:
                    if last:
                        raise Unreachable(in_words(error)) from None
                except httpx.TimeoutException:
                    raise Unreachable(f"no answer within {self.timeout_s:g} s") from None
                except (httpx.TransportError, httpx.InvalidURL, ValueError) as error:
                    # The text of such an error may hold anything; headers and URLs are secrets.
                    raise Unreachable(in_words(error)) from None
        raise Unreachable("no connection")

    async def _exchange(self, target: httpx.URL, address: str, content: bytes, headers: Mapping[str, str]) -> Answer:
        """To this very address; the name stays in the Host header and in the handshake."""
        pinned = target.copy_with(host=address, username=None, password=None)
        host = target.netloc.decode().rpartition("@")[2]
        verify = self._verify or _tls()
        async with httpx.AsyncClient(verify=verify, timeout=self.timeout_s, trust_env=False) as client:
            request = client.build_request("POST", pinned, content=content, headers={**headers, "Host": host})
            request.extensions["sni_hostname"] = _name(target)
            auth = httpx.BasicAuth(target.username, target.password) if target.userinfo else None
            response = await client.send(request, stream=True, auth=auth, follow_redirects=False)
            try:
                return Answer(response.status_code, await _beginning(response), _retry_after_s(response))
            finally:
                await response.aclose()


def _name(target: httpx.URL) -> str:
    """The host as DNS and certificates spell it."""
    return target.raw_host.decode("ascii")


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates takes longer than a message."""
    return httpx.create_ssl_context()


async def _beginning(response: httpx.Response) -> str:
    found = b""
    async for part in response.aiter_raw():
        found += part
        if len(found) >= MAX_ANSWER_BYTES:
            break
    return found[:MAX_ANSWER_BYTES].decode("utf-8", "replace")


def _retry_after_s(response: httpx.Response) -> float | None:
    wished = response.headers.get("Retry-After", "")
    return float(wished) if wished.isdigit() and len(wished) < 7 else None


def _marked(addresses: Sequence[str]) -> Iterable[tuple[bool, str]]:
    return ((at == len(addresses) - 1, each) for at, each in enumerate(addresses))
