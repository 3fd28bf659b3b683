"""HTTP: request lines in both forms, both path bases, credentials, and answers that go wrong."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.service.kaggle.accounts import AuthKind, auth_kind
from tests.service.kaggle.knobs import Fault
from tests.service.kaggle.replies import Reply, Stream, error
from tests.service.kaggle.stream import CutError

if TYPE_CHECKING:
    from tests.service.kaggle.server import KaggleServer

STREAM = "/v1/kernels/logs/stream/"
DOWNLOAD = "/signed/"


@dataclass(frozen=True)
class Request:
    """One request as it came. `call` is the method's last word, or `stream`, `download`, `connect`."""

    method: str
    target: str
    call: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Any
    auth: AuthKind
    at: float  # seconds on the monotonic clock


class Wire(ThreadingHTTPServer):
    """The listening socket; every connection has a thread."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, service: KaggleServer) -> None:
        self.service = service
        super().__init__(("127.0.0.1", port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away; anything else is an error of ours, kept for the test."""
        import sys

        problem = sys.exc_info()[1]
        if problem is not None and not isinstance(problem, ConnectionError):
            self.service.problems.append(problem)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Wire

    def do_GET(self) -> None:
        """The log stream and the downloads."""
        self._handle(None)

    def do_POST(self) -> None:
        """The calls."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self._handle(json.loads(body or b"null"))
        except json.JSONDecodeError:
            self._send(error(400, "Invalid JSON", "flat"))

    def do_CONNECT(self) -> None:
        """Somebody wants to go past us, to a real service: kept on record, and refused."""
        self._handle(None)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing; requests are on record."""

    def _handle(self, body: Any) -> None:
        service = self.server.service
        request = self._request(body)
        service.requests.append(request)
        fault = service.knobs.next_fault(request.call)
        reply = service.answer(request) if fault is None or fault.accepted else None
        if fault:
            self._spoil(fault, reply)
        elif isinstance(reply, Stream):
            self._send_stream(reply)
        elif reply:
            self._send(reply)

    def _request(self, body: Any) -> Request:
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/api") if self.command != "CONNECT" else self.path
        if self.command == "CONNECT":
            call = "connect"
        elif path.startswith(STREAM):
            call = "stream"
        else:
            call = "download" if path.startswith(DOWNLOAD) else path.rpartition("/")[2]
        kind = auth_kind(self.headers.get("Authorization") or "")
        headers = dict(self.headers.items())
        return Request(
            self.command, self.path, call, path, parts.query, headers, body, kind, time.monotonic()
        )

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if self.server.service.knobs.api_version:
            self.send_header("X-Kaggle-APIVersion", self.server.service.knobs.api_version)
        size = len(reply.body) if reply.declared is None else reply.declared
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(reply.body)
        if size != len(reply.body):
            self.close_connection = True

    def _send_stream(self, stream: Stream) -> None:
        self.send_response(200)
        self.send_header("Content-Type", stream.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for chunk in stream.chunks:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        except CutError:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def _spoil(self, fault: Fault, reply: Reply | Stream | None) -> None:
        """Answer as the fault says; a true answer, if there is one, is lost."""
        self.close_connection = True
        if fault.trouble == "silence":
            self.server.service.closing.wait()
        elif fault.trouble == "reset":
            self._reset()
        elif fault.trouble == "cut" and isinstance(reply, Reply):
            size = len(reply.body)
            self._send(Reply(reply.status, reply.body[: size // 2], reply.headers, declared=size))
        else:
            spoiled = error(fault.status, fault.message, fault.shape)
            if fault.retry_after:
                spoiled.headers["Retry-After"] = fault.retry_after
            self._send(spoiled)

    def _reset(self) -> None:
        """Close so that the other side sees a reset, not an end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            self.connection.close()
