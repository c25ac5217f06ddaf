"""Where nothing is sent: private addresses in any spelling, by redirect, or by a name that changes its mind."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network

import pytest
from pydantic import ValidationError

from headgate.server.outbound import Answer, Guard, Outbound, Refused, Resolve, Unreachable, is_public, look_up
from headgate.settings import PRIVATE_NETWORKS, Network, Settings
from tests.support.bad_servers import (
    answering,
    bad_server,
    breaking_off,
    closing,
    dead_url,
    dripping,
    garbage,
    hanging,
)
from tests.support.certificates import of_client, of_server

LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"),)
PRIVATE = [
    *("127.0.0.1", "127.255.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "0.0.0.0", "0.1.2.3"),
    *("169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.8", "192.0.2.1"),
    *("198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
    *("192.88.99.1", "::", "::1", "::7f00:1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1"),
    *("2001:db8::1", "2001::1", "2001:10::1", "100::1", "64:ff9b:1::a00:1"),
    *("::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::10.0.0.1", "64:ff9b::7f00:1"),
    *("2002:0a00:0001::", "2002:7f00:0001::1", "3fff::1", "5f00::1"),
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]


def to(*addresses: str) -> Resolve:
    """A resolver for which every name has these addresses."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


async def post(url: str, guard: Guard, timeout_s: float = 2.0, verify: ssl.SSLContext | None = None) -> Answer:
    return await Outbound(guard, timeout_s=timeout_s, verify=verify).post(url, b"{}", {"X-A": "b"})


def here(url: str) -> str:
    """The same server under a name."""
    return url.replace("127.0.0.1", "hooks.example.org")


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_that_leads_to_a_private_address_is_refused(address: str) -> None:
    with pytest.raises(Refused, match="is not a public address") as caught:
        await post("https://hooks.example.org/x", Guard(resolve=to(address)))
    assert "HEADGATE_ALERT_ALLOW_PRIVATE" in caught.value.hint


@pytest.mark.parametrize("address", PRIVATE)
async def test_one_private_address_among_public_ones_is_enough(address: str) -> None:
    with pytest.raises(Refused):
        await post("https://hooks.example.org/x", Guard(resolve=to("8.8.8.8", address)))


@pytest.mark.parametrize("address", PUBLIC)
async def test_public_addresses_are_let_through(address: str) -> None:
    assert await Guard(resolve=to(address)).addresses("hooks.example.org", 443) == [address]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "017700000001", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0"],
)
async def test_this_machine_is_refused_in_every_spelling(host: str) -> None:
    with pytest.raises(Refused):
        await post(f"http://{host}:1/x", Guard())


def test_public_is_what_the_internet_may_reach() -> None:
    assert [each for each in PUBLIC[:5] if not is_public(ip_address(each))] == []


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """The name has another answer the second time: nobody asks a second time."""
    asked: list[str] = []

    async def changes_its_mind(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    with bad_server(answering(200, "ok")) as server:
        answer = await post(here(server.url) + "/x", Guard(LOOPBACK, resolve=changes_its_mind))
    assert answer == Answer(200, "ok", None)
    assert asked == ["hooks.example.org"]
    port = server.url.rpartition(":")[2]
    assert server.asked[0].headers["host"] == f"hooks.example.org:{port}"


async def test_a_name_that_turns_private_between_two_alerts_is_refused_then() -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return next(answers)

    guard = Guard(LOOPBACK, resolve=rebinding)
    with bad_server(answering(200, "ok")) as server:
        assert (await post(here(server.url), guard)).status_code == 200
        with pytest.raises(Refused):
            await post(here(server.url), guard)
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed_wherever_they_lead(status: int) -> None:
    with bad_server(answering(200, "the secret inside")) as inside:
        with bad_server(answering(status, Location=inside.url)) as server:
            answer = await post(server.url, Guard(LOOPBACK))
        assert answer.status_code == status
    assert inside.asked == []


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with bad_server(answering(200, "ok")) as server, bad_server(answering(200, "proxied")) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert (await post(server.url, Guard(LOOPBACK))).body == "ok"
    assert proxy.asked == []


@asynccontextmanager
async def a_tls_server(name: str) -> AsyncIterator[tuple[int, list[str | None]]]:
    """A server that notes which name the handshake asked for."""
    names: list[str | None] = []
    context = of_server(name)

    def note(connection: ssl.SSLObject, asked: str | None, _: ssl.SSLContext) -> None:
        names.append(asked)

    context.sni_callback = note  # type: ignore[assignment]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1], names
    server.close()


async def test_the_handshake_is_with_the_name_although_the_connection_is_to_the_address() -> None:
    async with a_tls_server("hooks.example.org") as (port, names):
        url = f"https://hooks.example.org:{port}/x"
        guard = Guard(LOOPBACK, resolve=to("127.0.0.1"))
        assert (await post(url, guard, verify=of_client("hooks.example.org"))).status_code == 200
        assert names == ["hooks.example.org"]


async def test_a_certificate_for_another_name_is_refused() -> None:
    async with a_tls_server("other.example.org") as (port, _):
        guard = Guard(LOOPBACK, resolve=to("127.0.0.1"))
        with pytest.raises(Unreachable, match="no secure connection"):
            await post(f"https://hooks.example.org:{port}/x", guard, verify=of_client("other.example.org"))


async def test_the_next_address_is_tried_where_nobody_listens_at_the_first() -> None:
    with bad_server(answering(200, "ok")) as server:
        guard = Guard(LOOPBACK, resolve=to("127.0.0.9", "127.0.0.1"))
        assert (await post(here(server.url), guard)).status_code == 200


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (hanging, "no answer within 0.4 s"),
        (dripping, "no answer within 0.4 s"),
        (closing, "no connection"),
        (breaking_off, "no connection"),
        (garbage, "no connection"),
    ],
    ids=["hangs", "drips", "closes", "breaks off", "garbage"],
)
async def test_no_good_answer_is_an_error_that_says_little(behaviour: Callable[..., bool], message: str) -> None:
    began = time.monotonic()
    with bad_server(behaviour) as server, pytest.raises(Unreachable, match=message):
        await post(f"{server.url}/s3cr3tt0k3n", Guard(LOOPBACK), timeout_s=0.4)
    assert time.monotonic() - began < 2


async def test_nobody_there_is_an_error_that_may_pass() -> None:
    with pytest.raises(Unreachable, match="no connection: Connection refused"):
        await post(dead_url(), Guard(LOOPBACK))


async def test_a_resolver_that_hangs_does_not_hold_up_longer_than_the_timeout() -> None:
    async def hang(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(60)
        return []

    with pytest.raises(Unreachable, match=r"no answer within 0\.2 s"):
        await post("https://hooks.example.org", Guard(resolve=hang), timeout_s=0.2)


async def test_a_name_that_there_is_not_is_an_error_that_may_pass() -> None:
    with pytest.raises(Unreachable, match="is not known"):
        await Guard(resolve=look_up).addresses("no-such-name.invalid", 443)


async def test_a_name_that_cannot_be_one_is_an_error_like_any_other() -> None:
    for url in ("https://xn--/x", "https://a..b/", f"https://{'a' * 300}.example/", "https://\u00e9.invalid/"):
        with pytest.raises(Unreachable):
            await post(url, Guard())


async def test_only_the_beginning_of_an_answer_is_read() -> None:
    with bad_server(answering(200, "x" * 1_000_000)) as server:
        assert len((await post(server.url, Guard(LOOPBACK))).body) == 4096


@pytest.mark.parametrize(("wished", "heard"), [("7", 7.0), ("soon", None), ("-1", None), ("99999999", None)])
async def test_how_long_to_wait_is_heard_if_it_is_a_number(wished: str, heard: float | None) -> None:
    with bad_server(answering(429, Retry_After=wished)) as server:
        assert (await post(server.url, Guard(LOOPBACK))).retry_after_s == heard


@pytest.mark.parametrize("url", ["", "ftp://a/b", "file:///etc/passwd", "https://", "gopher://a", "https://a:port/"])
async def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(Refused):
        await post(url, Guard())


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        ("", ()),
        ("false", ()),
        ("true", PRIVATE_NETWORKS),
        ("10.0.0.0/8, fd00::/8", (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))),
        ("192.168.1.5", (ip_network("192.168.1.5/32"),)),
    ],
)
def test_networks_are_allowed_by_a_setting(
    text: str, networks: tuple[Network, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_ALERT_ALLOW_PRIVATE", text)
    assert Settings(_env_file=None).alert_allow_private == networks


def test_a_setting_that_names_no_network_says_how_to_write_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_ALERT_ALLOW_PRIVATE", "office")
    with pytest.raises(ValidationError, match="write `true`, `false` or"):
        Settings(_env_file=None)


async def test_allowing_private_networks_does_not_open_the_metadata_of_a_cloud() -> None:
    for address in ("10.0.0.1", "192.168.0.1", "127.0.0.1", "fd00::1"):
        assert await Guard(PRIVATE_NETWORKS, resolve=to(address)).addresses("a", 80) == [address]
    for address in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "fe80::1"):
        with pytest.raises(Refused):
            await Guard(PRIVATE_NETWORKS, resolve=to(address)).addresses("a", 80)
    named: tuple[Network, ...] = (ip_network("169.254.169.254/32"),)
    assert await Guard(named, resolve=to("169.254.169.254")).addresses("a", 80) == ["169.254.169.254"]


async def test_user_and_password_of_a_url_become_a_header() -> None:
    with bad_server(answering(200, "ok")) as server:
        await post(server.url.replace("http://", "http://me:pw@"), Guard(LOOPBACK))
    assert server.asked[0].headers["authorization"] == "Basic bWU6cHc="
    assert "@" not in server.asked[0].headers["host"]
