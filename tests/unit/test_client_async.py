"""The client that awaits: the same requests, retries and errors as the one that blocks."""

from __future__ import annotations

import inspect
from typing import Any

import httpx
import pytest

from headgate.client import AsyncHeadgateClient, HeadgateClient, datasets, lineage
from headgate.client.methods import Method, Methods
from headgate.errors import NotFound, Unavailable
from tests.unit.test_client import KEY, Server, problem


class AsyncServer(Server):
    """The scripted server, for the other client."""

    def awaited(self, **options: Any) -> AsyncHeadgateClient:
        async def pause(seconds: float) -> None:
            self.pauses.append(seconds)

        return AsyncHeadgateClient(
            "http://lineage.test:8642", KEY, transport=httpx.MockTransport(self), sleep=pause, **options
        )


async def test_an_answer_is_awaited_and_read() -> None:
    server = AsyncServer(httpx.Response(201))

    async with server.awaited() as client:
        receipt = await client.send(b"{}")

    assert (receipt.status, receipt.duplicate) == (201, False)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_request_is_sent_again_while_the_server_cannot_take_it() -> None:
    server = AsyncServer(problem(503), httpx.Response(200))

    await server.awaited().send(b"{}")

    assert len(server.requests) == 2
    assert len(server.pauses) == 1


async def test_a_server_that_is_not_there_is_told() -> None:
    server = AsyncServer(httpx.ConnectError("refused"))

    with pytest.raises(Unavailable, match=r"cannot reach 'http://lineage\.test:8642'"):
        await server.awaited(attempts=1).run("a")
    assert await server.awaited().ready() is False


async def test_a_refusal_becomes_its_error() -> None:
    with pytest.raises(NotFound, match="what happened"):
        await AsyncServer(problem(404, "not_found")).awaited().dataset("orders")


async def test_every_page_of_a_list_is_walked() -> None:
    first = httpx.Response(200, json={"items": [{"id": "a"}], "next_cursor": "n"})
    last = httpx.Response(200, json={"items": [{"id": "b"}], "next_cursor": None})
    server = AsyncServer(first, last)

    async with server.awaited() as client:
        keys = await client.list_keys()

    assert [key["id"] for key in keys] == ["a", "b"]
    assert server.requests[1].url.params["cursor"] == "n"


async def test_a_login_is_used_from_then_on() -> None:
    server = AsyncServer(httpx.Response(200, json={"token": "t-1", "role": "admin"}), httpx.Response(201))

    async with server.awaited() as client:
        answer = await client.login("a@b.example", "secret")
        await client.send(b"{}")

    assert answer == {"role": "admin"}
    assert server.requests[1].headers["authorization"] == "Bearer t-1"


def test_both_clients_have_the_same_methods() -> None:
    def own(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}

    assert own(HeadgateClient) == own(AsyncHeadgateClient)
    assert all(isinstance(part, Method) for name, part in vars(Methods).items() if not name.startswith("_"))


def test_every_method_says_what_it_does() -> None:
    assert [name for name, part in vars(Methods).items() if isinstance(part, Method) and not part.__doc__] == []


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("s3://bucket/a b/ü", "s3%3A%2F%2Fbucket%2Fa%20b%2F%C3%BC"),
        ("50%2F", "50%252F"),
        ("a?b#c", "a%3Fb%23c"),
        ("..", "%2E%2E"),
    ],
)
def test_a_name_is_one_segment_whatever_is_in_it(name: str, path: str) -> None:
    server = Server(httpx.Response(200, json={}))

    server.client().dataset(name)

    assert server.requests[0].url.raw_path.decode() == f"/api/v1/datasets/{path}"


def test_what_is_not_asked_for_is_not_sent() -> None:
    assert lineage.upstream("a", depth=3).params == {"depth": "3"}
    assert datasets.datasets(has_incident=True, limit=5).params == {"has_incident": "true", "limit": "5"}


def test_the_answer_may_be_had_as_plain_json() -> None:
    server = Server(httpx.Response(200, json={"new_field": 1}))

    assert server.client().call(lineage.upstream("a").raw()) == {"new_field": 1}
