"""What Kaggle's answers mean, in every shape that they have been met in."""

from __future__ import annotations

import json

import pytest

from builder.backends import State
from builder.backends.kaggle.answers import Answer, refused_push, seconds, status_of, understood
from builder.backends.kaggle.credentials import Credential
from builder.errors import (
    CapacityError,
    DeniedError,
    Exit,
    FerryError,
    InfrastructureError,
    NoSlotError,
    RefusedThereError,
)
from tests.service.kaggle.knobs import FORECAST_QUOTA, SLOTS, WEEKLY_QUOTA

ALICE = Credential("token", "KAGGLE_API_TOKEN", "secret-of-alice", "alice")
DATE = "Mon, 30 Nov 2026 10:00:00 GMT"


def answered(status: int, body: object, retry_after: str = "") -> FerryError:
    """The error that an answer means."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(FerryError) as caught:
        understood(Answer("GetKernel", status, retry_after, DATE, data), ALICE)
    return caught.value


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 429, 500, 503])
def test_the_reason_is_read_in_both_shapes(status: int, nested: bool) -> None:
    """Flat or under `error`, the service's own words are in the message."""
    inner = {"code": status, "message": "because of this", "status": "WORD"}
    error = answered(status, {"error": inner} if nested else inner)
    assert error.message == f"Kaggle answered {status} to GetKernel: because of this"
    assert error.hint


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, DeniedError),
        (401, DeniedError),
        (403, DeniedError),
        (404, DeniedError),
        (409, DeniedError),
        (429, InfrastructureError),
        (500, InfrastructureError),
        (503, InfrastructureError),
        (302, InfrastructureError),
    ],
)
def test_a_status_has_one_meaning(status: int, kind: type[FerryError]) -> None:
    """What may be another answer next time is told from what will not."""
    assert type(answered(status, {})) is kind


def test_401_403_and_404_name_different_causes() -> None:
    """Each hint names its likely cause: the credential, the account, the kernel."""
    hints = [answered(status, {}).hint for status in (401, 403, 404)]
    assert len(set(hints)) == 3
    assert "KAGGLE_API_TOKEN" in hints[0]
    assert "alice" in hints[1]
    assert "no such kernel" in hints[2]


@pytest.mark.parametrize("code", [503, "503"])
def test_an_error_inside_a_success_is_an_error(code: object) -> None:
    """A `code` in a 200 counts, as a number or as text."""
    assert isinstance(answered(200, {"code": code, "message": "busy"}), InfrastructureError)


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"<!DOCTYPE html><title>Busy</title>", "a web page came instead"),
        (200, b'{"files": [{"url": "ht', "came cut or damaged"),
        (200, b"", "came cut or damaged"),
        (200, b"[1, 2]", "came cut or damaged"),
        (200, b"\xff\xfe\x00", "came cut or damaged"),
        (503, b"<html>Busy</html>", "Kaggle answered 503"),
        (429, b"<html>Slow</html>", "Kaggle answered 429"),
    ],
)
def test_what_is_no_answer_is_told_in_a_sentence(status: int, body: bytes, told: str) -> None:
    """A page, half an answer and nothing at all are somebody's trouble, not a traceback."""
    error = answered(status, body)
    assert isinstance(error, InfrastructureError)
    assert told in error.message
    assert error.exit_code == Exit.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        ("7", 7.0),
        ("Mon, 30 Nov 2026 10:00:30 GMT", 30.0),
        ("Mon, 30 Nov 2026 09:00:00 GMT", 0.0),
        ("soon", 0.0),
    ],
)
def test_retry_after_is_read_as_seconds_and_as_a_date(retry_after: str, expected: float) -> None:
    """A date counts from the server's own clock."""
    error = answered(429, {}, retry_after)
    assert isinstance(error, InfrastructureError)
    assert error.retry_after_s == seconds(retry_after, DATE) == expected


def test_a_secret_that_the_service_repeats_is_hidden() -> None:
    """A message that quotes the credential is shown without it."""
    error = answered(400, {"code": 400, "message": "bad header Bearer secret-of-alice"})
    assert "secret-of-alice" not in f"{error.message}{error.hint}{ALICE!r}{ALICE}"


def test_escape_sequences_of_a_message_do_not_reach_a_terminal() -> None:
    """What the service says is one plain line."""
    error = answered(400, {"code": 400, "message": "\x1b[31mred\x1b[0m\nand\rmore"})
    assert "\x1b" not in error.message
    assert "\n" not in error.message


@pytest.mark.parametrize(
    ("words", "kind", "hint"),
    [
        (SLOTS, NoSlotError, "--wait-for-slot"),
        ("Maximum batch CPU session count of 5 reached.", NoSlotError, "--wait-for-slot"),
        (WEEKLY_QUOTA, CapacityError, "Saturday"),
        (FORECAST_QUOTA, CapacityError, "--timeout"),
        ("Notebook not found", RefusedThereError, "not the kernel's owner"),
        ("Something new", RefusedThereError, "nothing runs"),
    ],
)
def test_refusals_of_a_push_are_told_apart(words: str, kind: type[FerryError], hint: str) -> None:
    """Slots, the week's quota, a forecast beyond it, and any other no: each with what to do."""
    error = refused_push(words, [])
    assert type(error) is kind
    assert words in error.message
    assert hint in error.hint
    assert error.exit_code == (Exit.CAPACITY if isinstance(error, CapacityError) else Exit.USAGE)


@pytest.mark.parametrize("spelling", ["{}", "KernelWorkerStatus.{}", "KERNEL_WORKER_STATUS_{}"])
@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("QUEUED", State.QUEUED),
        ("NEW_SCRIPT", State.QUEUED),
        ("RUNNING", State.RUNNING),
        ("CANCEL_REQUESTED", State.RUNNING),
        ("COMPLETE", State.DONE),
        ("ERROR", State.FAILED),
        ("CANCEL_ACKNOWLEDGED", State.CANCELLED),
    ],
)
def test_a_status_is_read_in_every_spelling(spelling: str, word: str, state: State) -> None:
    """Upper and lower case, camel case and with the type's name before it."""
    camel = word.title().replace("_", "")
    for text in (word, word.lower(), camel[0].lower() + camel[1:]):
        assert status_of({"status": spelling.format(text)}).state is state


@pytest.mark.parametrize(
    "content", [{}, {"status": None}, {"status": 2}, {"status": "PAUSED"}, {"status": ""}]
)
def test_a_status_that_is_none_is_unknown(content: dict[str, object]) -> None:
    """A missing or new word is neither queued nor over."""
    status = status_of(content)
    assert status.state is State.UNKNOWN
    assert status.message


def test_the_failure_message_is_kept() -> None:
    """What the service says of an error is the status's message."""
    assert status_of({"status": "error", "failureMessage": "out of memory"}).message == "out of memory"
    assert status_of({"status": "error", "failureMessage": None}).message == ""
