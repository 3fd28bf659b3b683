"""The one event grammar between device and host. Standard library only; the host imports this module.

An event is one log line: a marker that ordinary output never has, then one ASCII JSON object

    @@ferry@@ {"v":2,"run":"…","part":1,"attempt":1,"seq":7,"at":3.2,"kind":"…","body":{…},"mac":…,"check":…}

`check` is the CRC-32 of the text before it, `mac` the seal on what stands before that (`harness.seal`); an
event without one is of version 1. (run, part, attempt, seq) names an event: a replay has the same name, a
restarted kernel has a higher attempt, a hole in seq means that lines were lost.
Times in samples are whole nanoseconds in 64 bits: one call of shape 14 overflows 32.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from harness.devices import SIMULATED as SIMULATED
from harness.devices import Device as Device
from harness.devices import Hardware as Hardware
from harness.devices import is_simulated as is_simulated
from harness.figures import Gate as Gate
from harness.orders import Order as Order
from harness.orders import RunRef as RunRef
from harness.orders import Terms as Terms
from harness.plain import UNREADABLE, unpack_ns
from harness.plain import from_plain as from_plain
from harness.plain import pack_ns as pack_ns
from harness.plain import to_plain as to_plain
from harness.seal import Seal as Seal
from harness.seal import revealed as revealed
from harness.shapes import Case

MARKER = "@@ferry@@ "
VERSIONS = (1, 2)
SAMPLES_PER_EVENT = 500  # keeps an event under 4 kB


class DamagedEventError(ValueError):
    """A line has the marker, but what follows is not a whole event."""


# --- what the kernel reports ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """First event of an attempt. `planned` events with each case follow; `carried` cases need no new run.

    `key_sha256` is the hash of the key that seals the attempt's events.
    """

    ref: RunRef
    terms: Terms
    planned: int
    started_at: str
    carried: int = 0
    deadline_s: float = 0.0
    key_sha256: str = ""


@dataclass(frozen=True)
class Planned:
    """One case of the plan, in the plan's order."""

    index: int
    case: Case


@dataclass(frozen=True)
class Started:
    """A case was dealt to a card."""

    case_id: str
    device_index: int


@dataclass(frozen=True)
class Samples:
    """Times of one side in one round, from sample `start` on, packed.

    Sides are `baseline` and `candidate`; `against`, another candidate; `baseline_before`, timed before the
    candidate was imported; `baseline_again`, the baseline once more as if it were a candidate.
    Under `strict` a round is a block, `positions` are the samples' places in it, packed alike, and samples of
    the same number are of the same turn: pairs.
    """

    case_id: str
    side: str
    round: int
    start: int
    ns: str
    positions: str = ""

    @property
    def values(self) -> tuple[int, ...]:
        """The times in nanoseconds. Raises DamagedEventError when they do not unpack."""
        return self._unpacked(self.ns)

    @property
    def places(self) -> tuple[int, ...]:
        """The samples' places in their block; none where there is no block. Raises DamagedEventError."""
        return self._unpacked(self.positions) if self.positions else ()

    @staticmethod
    def _unpacked(text: str) -> tuple[int, ...]:
        try:
            return unpack_ns(text)
        except ValueError as problem:
            raise DamagedEventError(f"samples do not unpack: {problem}") from problem


@dataclass(frozen=True)
class Work:
    """One kernel (on a CPU: one operator, without what it calls) over all calls that were watched."""

    name: str
    count: int
    ns: int


@dataclass(frozen=True)
class Profile:
    """What one side was busy with in `calls` calls after its timing: the longest work first, not all of it.

    `total_ns` is the sum of all work, the shown and the rest.
    """

    case_id: str
    side: str
    calls: int
    total_ns: int
    top: tuple[Work, ...]


@dataclass(frozen=True)
class CaseDone:
    """A case has ended, one way or another. `samples` counts what its Samples events must add up to."""

    case_id: str
    device_index: int
    status: str
    error_kind: str = ""
    error: str = ""
    gate: Gate | None = None
    route_ran: str = ""
    route_note: str = ""
    tf32: str = ""
    attention_backend: str = ""
    aliases_output: bool | None = None
    samples: int = 0
    first_call_s: float | None = None
    compile_s: float | None = None
    peak_mem_mib: float | None = None
    flags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """Something that the reader of the log should know and no row can hold."""

    text: str


@dataclass(frozen=True)
class End:
    """Last event of an attempt. `reason`: complete, deadline, stopped, wrong_accelerator, driver_error.

    `key` is the seal's, in hex; empty when a process of the run may still have lived.
    """

    reason: str
    counts: dict[str, int]
    wall_s: float
    key: str = ""


Body = Plan | Planned | Hardware | Device | Started | Samples | Profile | CaseDone | Note | End
KINDS: dict[str, type[Any]] = {
    "plan": Plan,
    "planned": Planned,
    "hardware": Hardware,
    "device": Device,
    "started": Started,
    "samples": Samples,
    "profile": Profile,
    "case": CaseDone,
    "note": Note,
    "end": End,
}
_KIND_OF = {cls: kind for kind, cls in KINDS.items()}


STATUSES = (
    "passed",
    "failed_gate",
    "error",
    "oom",
    "timeout",
    "disqualified",
    "infeasible",
    "not_run",
    "unknown",
)
# A case with one of these needs no further run; `not_run` and `unknown` do.
FINAL_STATUSES = frozenset(STATUSES[:7])


@dataclass(frozen=True, order=True)
class Name:
    """What names an event: replays share it."""

    run: str
    part: int
    attempt: int
    seq: int


@dataclass(frozen=True)
class Event:
    """A decoded event: name, time in seconds since its attempt began, body, and its line as it came."""

    name: Name
    at: float
    body: Body
    line: str = field(default="", compare=False, repr=False)


# --- the codec --------------------------------------------------------------------------------------------


def encode(event: Event, seal: Seal | None = None) -> str:
    """Return the event's line without a line end, sealed if there is a seal."""
    envelope = {
        "v": VERSIONS[0 if seal is None else 1],
        **dataclasses.asdict(event.name),
        "at": to_plain(round(event.at, 3)),
        "kind": _KIND_OF[type(event.body)],
        "body": to_plain(event.body),
    }
    text = json.dumps(envelope, separators=(",", ":"), allow_nan=False)[:-1]
    if seal is not None:
        text += f',"mac":"{seal.mac(text)}"'
    return f'{MARKER}{text},"check":"{_check(text)}"}}'


def decode(line: str) -> Event | None:
    """Return the event on a line, or None when the line has no marker.

    Raises DamagedEventError when the line has the marker and no whole event of a known version.
    """
    _, marker, rest = line.partition(MARKER)
    if not marker:
        return None
    text, _, check = rest.rstrip().rpartition(',"check":"')
    if check != _check(text) + '"}':
        raise DamagedEventError("an event is cut or altered: its check does not agree")
    try:
        return dataclasses.replace(_event(json.loads(text + "}")), line=MARKER + rest.rstrip())
    except UNREADABLE as problem:
        raise DamagedEventError(f"an event that is unknown here: {problem!r}") from problem


def _event(envelope: Any) -> Event:
    version, kind = envelope["v"], envelope["kind"]
    if version not in VERSIONS or kind not in KINDS:
        raise ValueError(f"version {version!r:.20}, kind {kind!r:.20}")
    name = from_plain(Name, envelope)
    return Event(name, from_plain(float, envelope["at"]), from_plain(KINDS[kind], envelope["body"]))


def _check(text: str) -> str:
    return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"
