"""The wire to Kaggle against services on loopback that behave worse than Kaggle."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from builder.backends.kaggle import wire
from builder.backends.kaggle.credentials import Credential
from builder.backends.kaggle.wire import Wire
from builder.errors import FerryError, InfrastructureError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ALICE = Credential("token", "KAGGLE_API_TOKEN", "secret-of-alice", "alice")


@contextmanager
def answering(*pieces: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """A service that answers one request with these pieces, then hangs up; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                try:
                    for piece in pieces:
                        connection.sendall(piece)
                        time.sleep(pause_s)
                except OSError:
                    return  # the client has left, as it should

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def ask(address: str, monkeypatch: pytest.MonkeyPatch) -> FerryError:
    """Ask the service behind an address, and return the error that comes of it."""
    monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", "LOCALHOST")
    monkeypatch.setenv("HTTP_PROXY", f"http://{address}")
    with pytest.raises(FerryError) as caught:
        Wire(read_s=0.5).ask("kernels.KernelsApiService", "GetKernel", {}, ALICE)
    assert "secret-of-alice" not in f"{caught.value.message}{caught.value.hint}"
    return caught.value


def test_a_file_that_drips_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may be large and take its time, but not for ever: its deadline moves on with what has come."""
    monkeypatch.setattr(wire, "ANSWER_S", 0.2)
    monkeypatch.setattr(wire, "SLOWEST", 1000.0)
    for piece, comes in ((b" " * 100, True), (b" ", False)):
        with answering(HEAD + b"Content-Length: 2000\r\n\r\n", *[piece] * 20, pause_s=0.03) as address:
            _, blocks = Wire(read_s=0.5).download(f"http://{address}/file", "a file")
            if comes:
                assert len(b"".join(blocks)) == 2000
            else:
                with pytest.raises(InfrastructureError, match="a file came too slowly"):
                    list(blocks)


def test_a_body_that_drips_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that come one by one, each in time, do not keep a call for ever."""
    monkeypatch.setattr(wire, "ANSWER_S", 0.3)
    with answering(HEAD + b"Content-Length: 1000\r\n\r\n", *[b" "] * 60, pause_s=0.02) as address:
        error = ask(address, monkeypatch)
    assert "had no end after 0.3 s" in error.message


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ([], "Remote end closed connection without response"),
        ([b"SSH-2.0-OpenSSH_9.6\r\n"], "no whole answer to GetKernel"),
        ([HEAD + b'Content-Length: 99\r\n\r\n{"a": '], "broke off in the middle of GetKernel"),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"], "broke off in the middle of GetKernel"),
        ([HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n{}{}"], "no whole answer to GetKernel"),
        (
            [b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/login\r\nContent-Length: 0\r\n\r\n"],
            "answered 302",
        ),
        ([b"HTTP/1.1 407 Proxy\r\nContent-Length: 0\r\n\r\n"], "answered 407"),
    ],
    ids=["nothing", "another protocol", "cut", "cut chunk", "no gzip", "redirect", "proxy password"],
)
def test_each_broken_answer_is_one_sentence(
    pieces: list[bytes], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer is taken for one, and each fault has words."""
    with answering(*pieces) as address:
        error = ask(address, monkeypatch)
    assert told in error.message
    assert error.hint


def test_silence_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that says nothing is left when the time is over."""
    with answering(b"", pause_s=1.0) as address:
        error = ask(address, monkeypatch)
    assert "did not answer GetKernel in time" in error.message


def test_a_service_without_tls_is_not_spoken_to() -> None:
    """Where a safe connection is wanted, an unsafe one is no substitute."""
    with (
        answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address,
        pytest.raises(InfrastructureError) as caught,
    ):
        Wire().download(f"https://{address}/file", "result.txt")
    assert "could not be reached safely for result.txt" in caught.value.message


@pytest.mark.parametrize("link", ["", "file:///etc/hostname", "ftp://127.0.0.1/file"])
def test_a_link_that_is_no_web_address_is_not_followed(link: str) -> None:
    """Only web addresses are fetched."""
    with pytest.raises(InfrastructureError, match="no link"):
        Wire().download(link, "result.txt")
