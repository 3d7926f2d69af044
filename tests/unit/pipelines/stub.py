"""A loopback HTTP server that answers as a test tells it, and keeps what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass
class Answer:
    """`body`: JSON, or bytes as they are. `drop`: close the connection without a word."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False


@dataclass
class Stub:
    url: str
    asked: list[Asked]

    def paths(self) -> list[str]:
        return [f"{a.method} {a.path}" for a in self.asked]


@contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[Stub]:
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            body = json.loads(raw) if raw else None
            said = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), body, dict(self.headers))
            asked.append(said)
            reply = answer(said)
            if reply.drop:
                self.close_connection = True
                return
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Stub(url=f"http://127.0.0.1:{server.server_port}", asked=asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
