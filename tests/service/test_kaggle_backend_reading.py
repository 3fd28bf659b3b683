"""What is read of a Kaggle run: status, live log, log; with each thing that goes wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.backends import State
from builder.backends.kaggle import livelog
from builder.errors import DeniedError, InfrastructureError
from builder.log import LogReader
from tests.service.kaggle.knobs import Ending, Fault, LogForm, WordForm
from tests.service.kaggle.server import KaggleServer
from tests.service.kernels import backend, data_of, ended, intent

# --- status -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["upper", "lower", "camel", "prefixed"])
def test_status_form(kaggle_environment: KaggleServer, form: WordForm) -> None:
    """Every spelling of the words is understood, of the version that was pushed."""
    kaggle_environment.knobs.status_form = form
    place, submission = ended(kaggle_environment)
    assert place.status([submission])[0].state is State.DONE
    assert kaggle_environment.calls("GetKernelSessionStatus")[0].body["versionLabel"] == "v1"


@pytest.mark.parametrize("word", ["", "PAUSED"])
def test_status_word(kaggle_environment: KaggleServer, word: str) -> None:
    """A missing or unknown word is `unknown`, which is not over."""
    place, submission = ended(kaggle_environment)
    kaggle_environment.knobs.status_word = word
    [status] = place.status([submission])
    assert status.state is State.UNKNOWN
    assert status.message


@pytest.mark.parametrize("honours_versions", [True, False])
def test_stale(kaggle_environment: KaggleServer, honours_versions: bool) -> None:
    """A service that answers for what ran before has nothing to take for this run: its name is new."""
    kaggle_environment.knobs.stale_s = 600
    kaggle_environment.knobs.honours_versions = honours_versions
    ended(kaggle_environment)
    kaggle_environment.knobs.hold = True
    place = backend()
    assert place.status([place.submit(intent(number=2))])[0].state is State.QUEUED


@pytest.mark.parametrize(
    ("word", "state"),
    [("ERROR", State.FAILED), ("CANCEL_ACKNOWLEDGED", State.CANCELLED)],
)
def test_ending(kaggle_environment: KaggleServer, word: str, state: State) -> None:
    """How a session was ended is its state, with the service's sentence."""
    kaggle_environment.knobs.ending = Ending(0.0, word)
    place, submission = ended(kaggle_environment, "import time\ntime.sleep(60)\n")
    [status] = place.status([submission])
    assert status.state is state
    assert "more memory than is available" in status.message


def test_hold(kaggle_environment: KaggleServer) -> None:
    """A session in the queue is queued and has no output."""
    kaggle_environment.knobs.hold = True
    place = backend()
    submission = place.submit(intent())
    assert place.status([submission])[0].state is State.QUEUED
    assert list(place.list_outputs(submission)) == []


@pytest.mark.parametrize(("status", "cause"), [(401, "KAGGLE_API_TOKEN"), (403, "alice"), (404, "deleted")])
def test_denied(kaggle_environment: KaggleServer, status: int, cause: str) -> None:
    """401, 403 and 404 are denials, each with its likely cause."""
    place, submission = ended(kaggle_environment)
    kaggle_environment.knobs.faults = [Fault("GetKernelSessionStatus", status=status, message="no")]
    with pytest.raises(DeniedError) as caught:
        place.status([submission])
    assert cause in caught.value.hint


@pytest.mark.parametrize("retry_after", ["7", "", "nonsense"])
def test_too_many_requests(kaggle_environment: KaggleServer, retry_after: str) -> None:
    """A 429 says how long to wait when the service does."""
    place, submission = ended(kaggle_environment)
    fault = Fault("GetKernelSessionStatus", status=429, retry_after=retry_after, shape="html")
    kaggle_environment.knobs.faults = [fault]
    with pytest.raises(InfrastructureError) as caught:
        place.status([submission])
    assert caught.value.retry_after_s == (7.0 if retry_after == "7" else 0.0)


# --- the live log -----------------------------------------------------------------------------------------


def test_the_live_log_ends_when_the_run_ends(
    kaggle_environment: KaggleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes while the program runs, silence is told, and its end is the run's end."""
    monkeypatch.setattr(livelog, "TICK_S", 0.2)
    place = backend()
    submission = place.submit(
        intent("import time\nprint('one', flush=True)\ntime.sleep(1.5)\nprint('two')\n")
    )
    blocks = list(place.follow_log(submission))
    assert b"" in blocks
    assert data_of(blocks).startswith("one\ntwo\n")
    assert kaggle_environment.sessions[0].wait() == "COMPLETE"
    assert kaggle_environment.calls("stream")[0].query == "versionLabel=v1"


def test_stream_cuts(kaggle_environment: KaggleServer) -> None:
    """A cut connection is told, and the next one begins with the very same bytes."""
    kaggle_environment.knobs.stream_cuts = [3]
    place = backend()
    submission = place.submit(intent("import time\nfor n in range(9): print(n, flush=True)\ntime.sleep(1)\n"))
    seen: list[bytes] = []
    with pytest.raises(InfrastructureError, match=r"broke off|cut off"):
        for block in place.follow_log(submission):
            seen.append(block)
    whole = b"".join(place.follow_log(submission))
    assert seen
    assert whole.startswith(b"".join(seen))


@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.parametrize("charset", [True, False])
def test_stream_charset(kaggle_environment: KaggleServer, charset: bool, noise: bool) -> None:
    """Text is right whether the charset is declared or not, whatever stands between the records."""
    kaggle_environment.knobs.stream_charset = charset
    kaggle_environment.knobs.stream_noise = noise
    place = backend()
    submission = place.submit(intent("import time\nprint('wörld <&>', flush=True)\ntime.sleep(1)\n"))
    assert data_of(list(place.follow_log(submission))).startswith("wörld <&>\n")


def test_the_stored_log_has_the_live_logs_bytes(kaggle_environment: KaggleServer) -> None:
    """Whoever comes back after the end can skip by position."""
    place = backend()
    submission = place.submit(intent("import time\nprint('hällo', flush=True)\ntime.sleep(0.5)\n"))
    live = b"".join(place.follow_log(submission))
    kaggle_environment.sessions[0].wait()
    assert b"".join(place.follow_log(submission)) == live


def test_stream_wait(kaggle_environment: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a queued run's log is waited for, silence is told; a service that gives up denies it."""
    monkeypatch.setattr(livelog, "TICK_S", 0.1)
    kaggle_environment.knobs.hold = True
    kaggle_environment.knobs.stream_wait_s = 1.0
    place = backend()
    found: list[bytes] = []
    with pytest.raises(DeniedError):
        for block in place.follow_log(place.submit(intent())):
            found.append(block)
    assert set(found) == {b""}


def test_stream_silence(kaggle_environment: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that says nothing for a while is survived."""
    monkeypatch.setattr(livelog, "TICK_S", 0.1)
    kaggle_environment.knobs.stream_silence_s = 1.0
    place = backend()
    submission = place.submit(intent("import time\nprint('late', flush=True)\ntime.sleep(2)\n"))
    blocks = list(place.follow_log(submission))
    assert blocks[0] == b""
    assert data_of(blocks).startswith("late\n")


def test_no_stream(kaggle_environment: KaggleServer) -> None:
    """A service without the live log denies it at once."""
    kaggle_environment.knobs.stream = False
    place, submission = ended(kaggle_environment)
    with pytest.raises(DeniedError):
        list(place.follow_log(submission))


# --- the log ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["array", "lines", "text", "cut array"])
def test_log_form(kaggle_environment: KaggleServer, form: LogForm, tmp_path: Path) -> None:
    """The stored log is kept as it came, and ferry reads each form."""
    kaggle_environment.knobs.log_form = form
    place, submission = ended(kaggle_environment, "print('a'); print('wörld <&>')\n")
    place.fetch_log(submission, tmp_path / "log.raw")
    assert "wörld <&>" in [line.text for line in LogReader(tmp_path / "log.raw").lines()]


def test_log_empty(kaggle_environment: KaggleServer, tmp_path: Path) -> None:
    """A log that is empty is empty, not an error: it may come later."""
    kaggle_environment.knobs.log_empty = True
    place, submission = ended(kaggle_environment)
    place.fetch_log(submission, tmp_path / "log.raw")
    assert (tmp_path / "log.raw").read_bytes() == b""


@pytest.mark.parametrize("trouble", ["cut", "reset"])
def test_a_log_that_comes_cut_is_not_kept(
    kaggle_environment: KaggleServer, tmp_path: Path, trouble: str
) -> None:
    """Half an answer leaves nothing behind."""
    place, submission = ended(kaggle_environment)
    kaggle_environment.knobs.faults = [Fault("ListKernelSessionOutput", trouble)]  # type: ignore[arg-type]
    with pytest.raises(InfrastructureError):
        place.fetch_log(submission, tmp_path / "log.raw")
    assert list(tmp_path.iterdir()) == []
