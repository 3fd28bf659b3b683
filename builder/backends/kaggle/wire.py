"""One call to Kaggle's service and its answer, with a deadline on each. Nothing is tried twice here.

Requests and answers are built and read by Kaggle's own library. Its transport is replaced by this one: that
waits for ever, drops the reason of a refusal, and finds credentials by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from builder.backends.kaggle.answers import Answer, understood
from builder.clock import Clock, SystemClock
from builder.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    import requests

    from builder.backends.kaggle.credentials import Credential

CONNECT_S = 10.0
READ_S = 45.0  # without a single byte
ANSWER_S = 300.0  # for the whole of an answer
SLOWEST = 20_000.0  # bytes a second of a file, after as long: what comes more slowly is not waited for
SILENCE_S = 150.0  # of a live log: what lies between cuts an idle one after two minutes
BLOCK = 65_536
_AGENT = "gpuferry"
_UNTRANSLATED = (TypeError, ValueError, AttributeError, OSError)  # what odd addresses have been seen to raise
_PASSWORD = re.compile(r"//[^/@\s]+@")


def base() -> str:
    """Return where the service's calls are, as Kaggle's own client finds it.

    UsageError for an environment that the client takes for another service or, worse, for the real one.
    """
    match os.environ.get("KAGGLE_API_ENVIRONMENT", ""):
        case "" | "PROD":
            return "https://api.kaggle.com/v1"
        case "LOCALHOST":
            return "http://localhost/api/v1"
        case other:
            raise UsageError(
                f"KAGGLE_API_ENVIRONMENT={other!r:.40} is refused: with it Kaggle's client sends credentials "
                "to the real service",
                "unset it; for a service of your own it is LOCALHOST with HTTP_PROXY",
            )


class Wire:
    """A connection to the service. `date` is the server's own time in its last answer, as it wrote it."""

    def __init__(self, clock: Clock | None = None, read_s: float = READ_S) -> None:
        self.date = ""
        self._clock = clock or SystemClock()
        self._read_s = read_s
        self._session: requests.Session | None = None

    def ask(
        self, service: str, method: str, content: Mapping[str, object], credential: Credential | None
    ) -> dict[str, Any]:
        """Return the answer to one call. InfrastructureError: none came; DeniedError: a no."""
        body = json.dumps(content).encode()
        url = f"{base()}/{service}/{method}"
        headers = {"Content-Type": "application/json"}
        answer = self._answer(self._send("POST", url, method, credential, headers, body), method)
        return understood(answer, credential)

    def live_log(self, path: str, credential: Credential | None) -> tuple[str, Iterator[bytes]]:
        """Open the live log at `path`; return its content type and its bytes as they come."""
        what = "the live log"
        headers = {"Accept": "text/event-stream, */*"}
        response = self._send("GET", f"{base()}/{path}", what, credential, headers, read_s=SILENCE_S)
        if response.status_code != 200:
            understood(self._answer(response, what), credential)
        return response.headers.get("Content-Type", ""), _blocks(response, what)

    def download(self, url: str, name: str) -> tuple[Mapping[str, str], Iterator[bytes]]:
        """Open a signed link, which carries its own right; return headers and the file's bytes."""
        if not url.startswith(("https://", "http://")):
            raise InfrastructureError(f"Kaggle gave no link to {name}")
        headers = {"Accept-Encoding": "identity"}  # so that Content-Length is the file's
        response = self._send("GET", url, name, None, headers)
        if response.status_code != 200:
            with response:
                raise InfrastructureError(
                    f"{urlsplit(url).hostname} answered {response.status_code} to the link of {name}",
                    "links expire: the next try gets a new one",
                )
        return response.headers, self._in_time(response, name)

    def _in_time(self, response: requests.Response, name: str) -> Iterator[bytes]:
        """Yield a file's blocks; its size is its own, so that its deadline moves on with what has come."""
        end = self._clock.monotonic() + ANSWER_S
        for block in _blocks(response, name):
            yield block
            end += len(block) / SLOWEST
            if self._clock.monotonic() > end:
                response.close()
                raise InfrastructureError(f"{name} came too slowly to be waited for", "try again later")

    def _send(
        self,
        verb: str,
        url: str,
        what: str,
        credential: Credential | None,
        headers: Mapping[str, str],
        body: bytes | None = None,
        read_s: float = 0.0,
    ) -> requests.Response:
        with _translated(what, url):
            response = self._opened().request(
                verb,
                url,
                data=body,
                headers=dict(headers),
                auth=credential.sign if credential else _unsigned,
                timeout=(CONNECT_S, read_s or self._read_s),
                allow_redirects=verb == "GET",  # a call that is led elsewhere would lose its content
                stream=True,
            )
        self.date = response.headers.get("Date", "")
        return response

    def _opened(self) -> requests.Session:
        if self._session is None:
            import requests

            self._session = requests.Session()
            self._session.headers["User-Agent"] = _AGENT
        return self._session

    def _answer(self, response: requests.Response, method: str) -> Answer:
        end = self._clock.monotonic() + ANSWER_S
        received: list[bytes] = []
        for block in _blocks(response, method):
            received.append(block)
            if self._clock.monotonic() > end:
                response.close()
                raise InfrastructureError(f"Kaggle's answer to {method} had no end after {ANSWER_S:g} s")
        return Answer(
            method,
            response.status_code,
            response.headers.get("Retry-After", ""),
            self.date,
            b"".join(received),
        )


def _unsigned(request: Any) -> Any:
    """Send no credential: without this, one from ~/.netrc would go along."""
    return request


def _blocks(response: requests.Response, what: str) -> Iterator[bytes]:
    """Yield a body as it comes, not only when a block is full."""
    with response, _translated(what, response.url):
        while block := response.raw.read1(BLOCK, decode_content=True):
            yield block


@contextlib.contextmanager
def _translated(what: str, url: str) -> Iterator[None]:
    """Turn the library's errors into ours; theirs may quote headers, so nothing of them goes along."""
    from requests import exceptions
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (exceptions.RequestException, HTTPError, *_UNTRANSLATED) as problem:
        raise _unanswered(problem, what, urlsplit(url).hostname or url) from None


def _unanswered(problem: Exception, what: str, host: str) -> InfrastructureError:
    from requests import exceptions
    from urllib3.exceptions import HTTPError, ProtocolError
    from urllib3.exceptions import TimeoutError as SilenceError

    if not isinstance(problem, OSError | HTTPError) or isinstance(problem, exceptions.InvalidHeader):
        return InfrastructureError(
            f"{host} could not be asked for {what}: an address or a header cannot be used",
            "see HTTP_PROXY, HTTPS_PROXY and NO_PROXY; `ferry doctor` checks them",
        )
    cause = _PASSWORD.sub("//", str(_first_cause(problem)))
    match problem:
        case exceptions.SSLError():
            return InfrastructureError(
                f"{host} could not be reached safely for {what}: {cause}",
                "is the clock right? REQUESTS_CA_BUNDLE names the certificates of a proxy that has its own",
            )
        case exceptions.ProxyError() | exceptions.InvalidProxyURL():
            return InfrastructureError(
                f"the proxy did not lead to {host} for {what}: {cause}",
                "see HTTP_PROXY, HTTPS_PROXY and NO_PROXY; `ferry doctor` checks them",
            )
        case exceptions.Timeout() | SilenceError():
            return InfrastructureError(f"{host} did not answer {what} in time", "try again later")
        case exceptions.ChunkedEncodingError() | ProtocolError():
            return InfrastructureError(f"{host} broke off in the middle of {what}", "try again")
    return InfrastructureError(
        f"no whole answer to {what} came from {host}: {cause}", "`ferry doctor` looks why"
    )


def _first_cause(problem: BaseException) -> BaseException:
    """Return the error that all others are about."""
    seen = {id(problem)}
    while True:
        inner = getattr(problem, "reason", None) or next(iter(problem.args), None)
        deeper = next(
            (
                one
                for one in (problem.__cause__, inner, problem.__context__)
                if isinstance(one, BaseException)
            ),
            None,
        )
        if deeper is None or id(deeper) in seen:
            return problem
        seen.add(id(deeper))
        problem = deeper
