"""What the tests of the agent's transport share: events to tell apart, and looks at what became of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket
from threading import Event

from headgate.client import HeadgateClient
from tests.support.agent_jvm import AgentJvm, Sending
from tests.support.bad_servers import Asked, BadServer, bad_server, taking
from tests.support.live import Live


def numbered(count: int, start: int = 0) -> list[dict[str, int]]:
    return [{"n": number} for number in range(start, start + count)]


def states(server: Live, run_ids: list[str]) -> list[str]:
    with HeadgateClient(server.url, server.api_key) as client:
        return [client.run(run_id)["state"] for run_id in run_ids]


def until_turned_away(server: BadServer, times: int) -> None:
    deadline = time.monotonic() + 10
    while len(server.asked) < times:
        assert time.monotonic() < deadline, f"asked {len(server.asked)} times only"
        time.sleep(0.02)
    time.sleep(0.1)


@contextmanager
def held_server(agent: AgentJvm) -> Iterator[tuple[BadServer, Sending, Event]]:
    """A transport that waits for the answer to its first event; what comes meanwhile is sent after that."""
    go_on = Event()

    def waiting(server: BadServer, connection: socket, asked: Asked) -> bool:
        go_on.wait(10)
        return taking(server, connection, asked)

    with bad_server(waiting) as server:
        sending = agent.sending(url=server.url, apiKey="sesame")
        sending.send({"n": 0})
        until_turned_away(server, 1)
        yield server, sending, go_on
        sending.close()


def sender_threads(agent: AgentJvm) -> int:
    return sum(1 for name, _ in _threads(agent) if name == "headgate-sender")


def sender_cpu_ms(agent: AgentJvm) -> float:
    bean = agent.jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    return sum(bean.getThreadCpuTime(each) for name, each in _threads(agent) if name == "headgate-sender") / 1e6


def _threads(agent: AgentJvm) -> list[tuple[str, int]]:
    bean = agent.jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    found = [(each, bean.getThreadInfo(each)) for each in bean.getAllThreadIds()]
    return [(info.getThreadName(), each) for each, info in found if info is not None]
