"""Receivers that really listen: HTTP (with any fault), HTTPS with a certificate of its own, and SMTP."""

import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Request:
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


Answer = Callable[[BaseHTTPRequestHandler], None]


def status(code: int, **headers: str) -> Answer:
    """An answer without a body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in {**headers, "Content_Length": "0"}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    return answer


def endless(handler: BaseHTTPRequestHandler) -> None:
    """200, and then a body that never ends."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"x" * 65536)
    except OSError:
        handler.close_connection = True


def hangs_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


@dataclass
class Receiver:
    """What came, in order. `answers` are used up one by one; then every request is answered 204."""

    url: str
    got: list[Request] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def silent(self, handler: BaseHTTPRequestHandler) -> None:
        """No answer until the test is over."""
        self.over.wait(30)
        handler.close_connection = True

    def drips(self, handler: BaseHTTPRequestHandler) -> None:
        """An answer whose head comes byte by byte and never ends: no single read is ever late."""
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self.over.wait(0.05):
                handler.wfile.write(b"x")
        except OSError:
            handler.close_connection = True


@contextmanager
def listening(context: ssl.SSLContext | None = None, host: str = "localhost") -> Iterator[Receiver]:
    receiver = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            receiver.got.append(Request(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            answer = receiver.answers.pop(0) if receiver.answers else status(204)
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            return  # a client that does not trust the certificate, or that hangs up

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver.url = f"http{'s' if context else ''}://{host}:{server.server_port}/hook/very-secret-path"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def certificate(folder: Path) -> Path:
    """A self-signed certificate for localhost, with its key, in one file."""
    key, made = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", str(key), "-out", str(made), "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    made.write_text(made.read_text() + key.read_text())
    return made


def nobody_listens() -> str:
    """An address at which the connection is refused."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://localhost:{one.getsockname()[1]}/hook"


@dataclass
class Mailbox:
    """An SMTP server's view: what was handed over, and how it answers RCPT."""

    port: int = 0
    mails: list[str] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    rcpt: str = "250 fine"


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    box = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(line.encode() + b"\r\n")

        def handle(self) -> None:
            self.say("220 here")
            for raw in self.rfile:
                word = raw.decode().strip().upper()
                if word.startswith("RCPT"):
                    box.recipients.append(raw.decode().strip())
                    self.say(box.rcpt)
                elif word == "DATA":
                    self.say("354 go on")
                    lines = list(iter(lambda: self.rfile.readline().decode().rstrip("\r\n"), "."))
                    box.mails.append("\n".join(lines))
                    self.say("250 taken")
                elif word == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 fine")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    box.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield box
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def until(true: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for another process or thread; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
