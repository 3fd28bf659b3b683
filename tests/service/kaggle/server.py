"""The whole service, and how to point a client at it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.service.kaggle.accounts import Accounts
from tests.service.kaggle.calls import Calls
from tests.service.kaggle.knobs import Knobs
from tests.service.kaggle.outputs import Outputs
from tests.service.kaggle.replies import Reply, ServiceError, Stream, error, in_json
from tests.service.kaggle.sessions import Session, Sessions
from tests.service.kaggle.stream import Streams
from tests.service.kaggle.wire import STREAM, Request, Wire

RPC = "/v1/kernels.KernelsApiService/"
INTROSPECT = "/v1/security.OAuthService/IntrospectToken"
MINT = "/v1/users.AccountService/GenerateAccessToken"
EXPIRE = "/v1/users.AccountService/ExpireApiToken"
HOSTS = ("localhost", "127.0.0.1", "api.kaggle.com", "www.kaggle.com")


class KaggleServer:
    """A started service on loopback: turn its `knobs`, read its `requests` and `sessions`."""

    def __init__(self, home: Path, knobs: Knobs | None = None, port: int = 0) -> None:
        self.knobs = knobs or Knobs()
        self.requests: list[Request] = []
        self.problems: list[BaseException] = []  # errors of the server itself
        self.closing = threading.Event()
        self.accounts = Accounts("alice", "bobby")
        self._wire = Wire(port, self)
        self.address = f"http://127.0.0.1:{self._wire.server_port}"
        self.kernels = Sessions(home, self.knobs)
        self._outputs = Outputs(self.kernels, self.knobs, self.address)
        self._calls = Calls(self.kernels, self._outputs, self.knobs)
        self._streams = Streams(self.knobs)
        self._thread = threading.Thread(target=self._wire.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def sessions(self) -> list[Session]:
        """Every session that was ever started, in order."""
        return self.kernels.all

    def calls(self, call: str) -> list[Request]:
        """Return the requests of one call so far."""
        return [request for request in self.requests if request.call == call]

    def environment(self, user: str = "alice", auth: str = "bearer") -> dict[str, str]:
        """Return what a client's environment must hold; `auth` is `bearer`, `basic` or `none`.

        The proxy for https is there so that a client which means the real service ends here, on record.
        """
        account = self.accounts.known[user]
        credentials = {
            "bearer": {"KAGGLE_API_TOKEN": account.token},
            "basic": {"KAGGLE_USERNAME": account.username, "KAGGLE_KEY": account.key},
            "none": {},
        }[auth]
        proxies = {"HTTP_PROXY": self.address, "HTTPS_PROXY": self.address}
        return {"KAGGLE_API_ENVIRONMENT": "LOCALHOST", **proxies, **credentials}

    def answer(self, request: Request) -> Reply | Stream:
        """Answer one request truly; what goes wrong on the way is the wire's."""
        try:
            reply = self._answer(request)
        except ServiceError as problem:
            return error(problem.status, problem.message, self.knobs.error_shape)
        return (
            in_json(_without_lists(reply) if self.knobs.null_lists else reply)
            if isinstance(reply, dict)
            else reply
        )

    def close(self) -> None:
        """Stop every session and every thread."""
        self.closing.set()
        self.kernels.close()
        self._wire.shutdown()
        self._wire.server_close()

    def _answer(self, request: Request) -> dict[str, Any] | Reply | Stream:
        if request.call == "connect":
            raise ServiceError(403, "There is no way to the real service here.")
        if request.call == "download":
            return self._outputs.fetch(request.path, request.query, request.headers.get("Range", ""))
        if request.path in (INTROSPECT, MINT, EXPIRE):
            return self._about_tokens(request)
        user = self.accounts.who(request.headers.get("Authorization", ""), self.knobs.tokens_expired)
        if user is None:
            raise ServiceError(401, "Unauthenticated")
        if request.call == "stream":
            owner, slug = request.path.removeprefix(STREAM).split("/", 1)
            label = parse_qs(request.query).get("versionLabel", [""])[0]
            return self._streams.answer(self._calls.session(user, owner, slug, label))
        method = self._calls.methods.get(request.call) if request.path.startswith(RPC) else None
        if method is None or request.method != "POST":
            raise ServiceError(404, "Not found")
        return method(user, request.body)

    def _about_tokens(self, request: Request) -> dict[str, Any]:
        if request.path == INTROSPECT:
            return self.accounts.introspect(request.body["token"], self.knobs.tokens_expired)
        minted = {} if request.path == EXPIRE else self.accounts.mint(request.body["refreshToken"])
        if minted is None:
            raise ServiceError(401, "Unauthenticated")
        return minted


@contextlib.contextmanager
def serving(knobs: Knobs | None = None, port: int = 0) -> Iterator[KaggleServer]:
    """Run a service for as long as the block lasts; its sessions' folders go with it."""
    home = Path(tempfile.mkdtemp(prefix="kaggle-"))
    server = KaggleServer(home, knobs, port)
    try:
        yield server
    finally:
        server.close()
        shutil.rmtree(home, ignore_errors=True)


def _without_lists(value: Any) -> Any:
    """Turn every empty list into null."""
    if isinstance(value, dict):
        return {name: _without_lists(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_lists(part) for part in value] or None
    return value
