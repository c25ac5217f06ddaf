"""Ports: free ones, open ones, and one that leads to a database."""

from __future__ import annotations

import select
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.server.db.embedded import EmbeddedPostgres


def a_free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def is_open(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "it ended before it was asked anything"
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def port_of(postgres: EmbeddedPostgres) -> Iterator[int]:
    """A port that leads to a database which itself listens on a socket file only: Java knows no other way."""
    running = postgres.running()
    assert running is not None
    (path,) = Path(running.socket_dir).glob(".s.PGSQL.*[0-9]")

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as behind:
                behind.connect(str(path))
                ends = {self.request: behind, behind: self.request}
                while True:
                    for ready in select.select(list(ends), [], [])[0]:
                        data = ready.recv(65536)
                        if not data:
                            return
                        ends[ready].sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
