"""What Kaggle's answers mean: refusals in both shapes they come in, and its words for a state.

Nothing here goes over the network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from builder.backends import State, Status
from builder.errors import (
    CapacityError,
    DeniedError,
    FerryError,
    InfrastructureError,
    NoSlotError,
    RefusedThereError,
)
from builder.terminal import one_line

if TYPE_CHECKING:
    from builder.backends.kaggle.credentials import Credential

WORDS = {
    "QUEUED": State.QUEUED,
    "NEWSCRIPT": State.QUEUED,  # pushed and never begun
    "RUNNING": State.RUNNING,
    "CANCELREQUESTED": State.RUNNING,
    "COMPLETE": State.DONE,
    "ERROR": State.FAILED,
    "CANCELACKNOWLEDGED": State.CANCELLED,
}
_TEXT_CHARS = 300


@dataclass(frozen=True)
class Answer:
    """What came back for `method`; `date` is the server's time, `retry_after` its wish, both as written."""

    method: str
    status: int
    retry_after: str
    date: str
    body: bytes


def understood(answer: Answer, credential: Credential | None) -> dict[str, Any]:
    """Return an answer's content, or raise what it means that there is none."""
    try:
        content = json.loads(answer.body or b"null")
    except (ValueError, RecursionError):
        content = None
    code, message = _complaint(content)
    status = answer.status if answer.status >= 300 else code
    if status >= 300:
        hidden = credential.hide(message) if credential else message
        raise refusal(answer, status, one_line(hidden)[:_TEXT_CHARS], credential)
    if not isinstance(content, dict):
        raise InfrastructureError(
            _no_answer(answer), "it is often over in a minute; `ferry doctor` looks why"
        )
    return content


def _complaint(content: object) -> tuple[int, str]:
    """Return code (0: none) and message of `{"code", "message"}` and `{"error": {"code", "message"}}`."""
    if not isinstance(content, dict):
        return 0, ""
    nested = isinstance(content.get("error"), dict)
    inner = content["error"] if nested else content
    code, message = str(inner.get("code", "")), inner.get("message")
    number = int(code) if re.fullmatch(r"[3-9]\d\d", code) else 500 if nested else 0
    return number, message if isinstance(message, str) else ""


def _no_answer(answer: Answer) -> str:
    if re.match(rb"\s*<", answer.body):
        return f"a web page came instead of Kaggle's answer to {answer.method}"
    return f"Kaggle's answer to {answer.method} came cut or damaged ({len(answer.body):,} bytes)"


def refusal(answer: Answer, status: int, message: str, credential: Credential | None) -> FerryError:
    """Return the error that an HTTP status stands for, with its likely cause."""
    reason = f": {message}" if message else ""
    told = f"Kaggle answered {status} to {answer.method}{reason}"
    if status in (408, 425, 429) or status >= 500:
        wait_s = seconds(answer.retry_after, answer.date)
        hint = f"it asks to be left alone for {wait_s:g} s" if wait_s else "try again in a minute"
        return InfrastructureError(told, hint, wait_s)
    if status == 407:
        return InfrastructureError(
            told, "the proxy wants a password: HTTP_PROXY=http://NAME:PASSWORD@HOST:PORT"
        )
    if status < 400:
        return InfrastructureError(
            told, "something between here and there leads calls elsewhere: a proxy, a login page?"
        )
    source = credential.source if credential else "no credential"
    owner = credential.username if credential and credential.username else "yours"
    return DeniedError(told, _DENIED.get(status, _OTHERWISE).format(source=source, owner=owner))


_OTHERWISE = "what it names is wrong in what was sent"
_DENIED = {
    401: "{source} is not accepted: make a new token in Kaggle's settings; `ferry doctor` checks it",
    403: (
        "Kaggle says so of a kernel that does not exist or is not of the account ({owner}), and to an OAuth "
        "login that lacks the permission ({source})"
    ),
    404: "there is no such kernel of the account ({owner}): deleted, or too young to be known everywhere",
}


def seconds(retry_after: str, date: str) -> float:
    """Read `Retry-After`: seconds, or a date, counted from the server's own `Date`. 0 when unreadable."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        now = parsedate_to_datetime(date) if date else datetime.now(UTC)
        return max(0.0, (parsedate_to_datetime(retry_after) - now).total_seconds())
    except (TypeError, ValueError):
        return 0.0


def refused_push(error: str, invalid: Iterable[str], undeleted: str = "") -> FerryError:
    """Return what a refusal in a successful answer means: an `error`, or sources and tags in `invalid`.

    `undeleted` says why a kernel that lacks what is invalid could not be taken back.
    """
    text = one_line(error)[:_TEXT_CHARS]
    for pattern, kind, hint in _FULL:
        if re.search(pattern, text, re.IGNORECASE):
            return kind(f"Kaggle refused the push: {text}", hint)
    if text:
        return RefusedThereError(f"Kaggle refused the push: {text}", _advice(text))
    lacking = f"Kaggle could not add {', '.join(map(one_line, invalid))}"
    if undeleted:
        return RefusedThereError(
            f"{lacking}, and the kernel may run, for it could not be deleted: {one_line(undeleted)}",
            "delete it on Kaggle's site, lest it uses up quota",
        )
    return RefusedThereError(
        f"{lacking}, and the kernel was taken back", "the kernel needs none of it: please report this"
    )


_FULL: tuple[tuple[str, type[CapacityError], str], ...] = (
    (
        r"session count",
        NoSlotError,
        "wait for one to end (it may count a little longer), or push with --wait-for-slot",
    ),
    (
        r"quota.*\breached\b",
        CapacityError,
        "the week's hours are used up until Saturday 00:00 UTC; `ferry quota` shows them",
    ),
    (
        r"quota",
        CapacityError,
        "less is left than the run may take: push fewer cases or a shorter --timeout; see `ferry quota`",
    ),
)


def _advice(text: str) -> str:
    if re.search(r"not found", text, re.IGNORECASE):
        return "the credential's account is not the kernel's owner, or the kernel was deleted: push again"
    return "nothing runs; mend what it names and push again"


def status_of(content: dict[str, Any]) -> Status:
    """Read a status in any spelling that Kaggle or its client has used; what is none of them is `unknown`."""
    word, message = content.get("status"), content.get("failureMessage")
    message = one_line(message) if isinstance(message, str) else ""
    if not isinstance(word, str):
        return Status(State.UNKNOWN, message or "Kaggle's answer has no status in it")
    plain = re.sub(r"[^A-Z]", "", word.upper()).removeprefix("KERNELWORKERSTATUS")
    state = WORDS.get(plain, State.UNKNOWN)
    if state is State.UNKNOWN:
        message = message or f"Kaggle says {one_line(word)[:40]!r}, which is no known status"
    return Status(state, message)
