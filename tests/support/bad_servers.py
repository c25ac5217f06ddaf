"""Servers on real sockets that do what servers should not: hang, refuse, break off, answer nonsense."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

HTML = "<html><body>It works!</body></html>"


class Asked(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def events(self) -> list[Any]:
        events: list[Any] = json.loads(gzip.decompress(self.body))
        return events


@dataclass
class BadServer:
    """A server that can change its mind; `asked` is what it has been asked so far."""

    url: str
    behaviour: Behaviour
    asked: list[Asked] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def events(self) -> list[Any]:
        return [event for asked in self.asked for event in asked.events]


Behaviour = Callable[[BadServer, socket.socket, Asked], bool]
"""Answers one request; whether the connection stays."""


def answering(status: int, body: str = "", **headers: str) -> Behaviour:
    def answer(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
        connection.sendall(rendered(status, body, headers))
        return True

    return answer


def taking(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
    """Answer as Headgate does when it stores everything."""
    return answering(200, dealt(len(asked.events)))(server, connection, asked)


def hanging(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
    server.stopped.wait(60)
    return False


def dripping(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
    """An answer that comes byte by byte and never ends: no single read takes long."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not server.stopped.wait(0.05):
        connection.sendall(b" ")
    return False


def closing(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
    return False


def breaking_off(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"status": ')
    return False


def garbage(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
    connection.sendall(b"\x15\x03\x01\x00\x02\x02\x50 this is no HTTP at all \x00\xff\r\n\r\n")
    return False


def dealt(received: int, failed: list[dict[str, Any]] | None = None) -> str:
    """The body with which Headgate says what became of a batch."""
    failed = failed or []
    summary = {"received": received, "successful": received - len(failed), "failed": len(failed)}
    return json.dumps({"status": "success", "summary": summary, "failed_events": failed})


def rendered(status: int, body: str, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Something", f"Content-Length: {len(body.encode())}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


@contextmanager
def bad_server(behaviour: Behaviour) -> Iterator[BadServer]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = BadServer(f"http://127.0.0.1:{listener.getsockname()[1]}", behaviour)
    threading.Thread(target=_accept, args=(listener, server), daemon=True).start()
    try:
        yield server
    finally:
        server.stopped.set()
        _shut(listener, *server.connections)


def dead_url() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


class Gate:
    """A way to a real server that can be shut: connections are then closed as soon as they come."""

    def __init__(self, listener: socket.socket, target: tuple[str, int]) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.is_shut = False
        self.turned_away = 0
        self._listener = listener
        self._target = target
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self) -> None:
        self.is_shut = True
        _shut(*self._sockets)

    def open(self) -> None:
        self.is_shut = False

    def close(self) -> None:
        _shut(self._listener, *self._sockets)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self.is_shut:
                    self.turned_away += 1
                    near.close()
                else:
                    self._join(near, socket.create_connection(self._target))

    def _join(self, near: socket.socket, far: socket.socket) -> None:
        self._sockets += [near, far]
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


@contextmanager
def gate_to(url: str) -> Iterator[Gate]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    gate = Gate(socket.create_server(("127.0.0.1", 0)), (parts.hostname, parts.port))
    try:
        yield gate
    finally:
        gate.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    _shut(source, sink)


def _shut(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def _accept(listener: socket.socket, server: BadServer) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            server.connections.append(connection)
            threading.Thread(target=_serve, args=(connection, server), daemon=True).start()


def _serve(connection: socket.socket, server: BadServer) -> None:
    with suppress(OSError, ValueError), connection.makefile("rb") as stream:
        stays = True
        while stays and (asked := _request(stream)):
            server.asked.append(asked)
            stays = server.behaviour(server, connection, asked)
    _shut(connection)


def _request(stream: Any) -> Asked | None:
    first = stream.readline().decode()
    if not first:
        return None
    headers = {}
    while line := stream.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Asked(first.split()[1], headers, stream.read(int(headers.get("content-length", "0"))))
