"""A small service on loopback that answers as Kaggle's does in the demo's scenes, and runs what is pushed.

It is no Kaggle: it knows the calls that the scenes make and no more. The tests hold its answers against those
of their own, larger service, which the whole backend is tested with.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from builder.ending import end_group

USER = "you"
TOKEN = "a-token-of-the-demo"  # noqa: S105 - no secret: only the loopback service takes it
FULL = "Maximum batch GPU session count of 2 reached."
SESSION_S = 60.0  # the longest that a program of a scene may run

Json = dict[str, Any]


@dataclass
class Version:
    """One version of a kernel; without a process it is in the queue."""

    process: subprocess.Popen[bytes] | None
    log: Path

    @property
    def status(self) -> str:
        """The service's word for where it stands."""
        code = self.process.poll() if self.process else None
        if code is None:
            return "RUNNING" if self.process else "QUEUED"
        return "ERROR" if code else "COMPLETE"

    def text(self) -> str:
        """The stored log: a JSON array of records."""
        lines = self.log.read_text("utf-8", errors="replace").splitlines(True) if self.process else []
        records = [
            {"stream_name": "stdout", "time": float(at), "data": line} for at, line in enumerate(lines)
        ]
        return "[" + "\n,".join(map(json.dumps, records)) + "\n]"


class Loopback:
    """The service, with what it was `asked`. `refusal` is what a push is told; `is_busy`: all pushes queue.

    `environment` is that of the pushed programs.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.refusal = ""
        self.is_busy = False
        self.environment: Mapping[str, str] = {}
        self.asked: list[tuple[str, Json]] = []
        self._kernels: dict[str, list[Version]] = {}
        self._server = _Server(self)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Loopback:
        """Begin to serve."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving, and whatever still runs."""
        self._server.shutdown()
        self._server.server_close()
        for version in (version for versions in self._kernels.values() for version in versions):
            if version.process:
                end_group(version.process)

    def answer(self, call: str, body: Json) -> Json | None:
        """Answer one call; None when there is no such thing."""
        self.asked.append((call, body))
        match call:
            case "IntrospectToken":
                return {"active": body.get("token") == TOKEN, "username": USER}
            case "SaveKernel":
                return self._save(body)
            case "GetKernelSessionStatus" if version := self._version(body):
                return {"status": version.status}
            case "ListKernelSessionOutput" if version := self._version(body):
                return {"files": [], "log": version.text()}
            case "ListKernels":
                return {"kernels": []}
            case "GetAcceleratorQuotaStatistics":
                return {"gpuQuota": {"timeUsed": "0s", "timeReserved": "0s", "totalTimeAllowed": "108000s"}}
        return None

    def stored_log(self, path: str, label: str) -> str | None:
        """Return what the log stream gives of a session, once that has ended."""
        slug = path.rpartition("/")[2]
        version = self._version({"kernelSlug": slug, "versionLabel": label})
        if version is None or version.process is None:
            return None
        version.process.wait(SESSION_S)
        return version.text()

    def finish(self, slug: str) -> None:
        """Wait for the end of a kernel's versions."""
        for version in self._kernels[slug]:
            if version.process:
                version.process.wait(SESSION_S)

    def _save(self, body: Json) -> Json:
        """Take a push, or refuse it with HTTP status 200, as the real service does."""
        if self.refusal:
            return {"ref": "", "url": "", "versionNumber": 0, "error": self.refusal}
        slug = re.sub(r"[^a-z0-9]+", "-", body["newTitle"].lower())
        versions = self._kernels.setdefault(slug, [])
        folder = self.home / slug / str(len(versions) + 1)
        folder.mkdir(parents=True)
        versions.append(Version(None if self.is_busy else self._run(folder, body["text"]), folder / "log"))
        url = f"https://www.kaggle.com/code/{USER}/{slug}"
        return {"ref": f"/code/{USER}/{slug}", "url": url, "versionNumber": len(versions)}

    def _run(self, folder: Path, text: str) -> subprocess.Popen[bytes]:
        script = folder / "script.py"
        script.write_text(text, "utf-8")
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, str(script)],
                cwd=folder,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _version(self, body: Json) -> Version | None:
        """Return the version asked for. Without a version, for a while after a push, it is the one before."""
        versions = self._kernels.get(body.get("kernelSlug", ""), [])
        label = body.get("versionLabel") or f"v{max(1, len(versions) - 1)}"
        number = int(label.removeprefix("v"))
        return versions[number - 1] if 0 < number <= len(versions) else None


class _Server(ThreadingHTTPServer):
    """The listening socket."""

    daemon_threads = True

    def __init__(self, service: Loopback) -> None:
        self.service = service
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that is interrupted goes away."""


class _Handler(BaseHTTPRequestHandler):
    """One connection; clients take this server for their proxy, so that a request names its host."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """The log stream."""
        parts = urlsplit(self.path)
        label = parse_qs(parts.query).get("versionLabel", [""])[0]
        self._send(self.server.service.stored_log(parts.path.partition("/stream/")[2], label))

    def do_POST(self) -> None:
        """The calls."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        answer = self.server.service.answer(urlsplit(self.path).path.rpartition("/")[2], body)
        self._send(None if answer is None else json.dumps(answer))

    def do_CONNECT(self) -> None:
        """Somebody means the real service: nothing of the demo gets there."""
        self._send(None)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""

    def _send(self, text: str | None) -> None:
        content = (json.dumps({"code": 404, "message": "Not found"}) if text is None else text).encode()
        self.send_response(404 if text is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
