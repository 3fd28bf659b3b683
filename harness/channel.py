"""What the driver and its children ask and answer each other; `harness.wire` carries it.

Standard library only.
"""

from __future__ import annotations

import random
import statistics
import typing
from dataclasses import dataclass, field
from typing import Any

from harness.events import Device, Profile, Samples
from harness.figures import Figures as Figures
from harness.shapes import Case

# --- requests ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello:
    """To both: import torch and take the device, `cuda` or `cpu`. Answer: Ready."""

    device: str


@dataclass(frozen=True)
class Load:
    """To both: import the contract. Answer: Done."""

    own_harness: bool


@dataclass(frozen=True)
class Alone:
    """To the worker: time the case's baseline while there is no candidate in the process. Answer: Timed.

    `seed` is for the inputs of protocol `strict`; the contest's has one input.
    """

    case: Case
    weight_seed: int
    seed: int


@dataclass(frozen=True)
class Enter:
    """To the worker: import the candidate, module `model`, and `against` if there is one. Answer: Done."""

    model: str
    against: str = ""


@dataclass(frozen=True)
class Build:
    """To both: draw the baseline's weights; to the worker: build the candidate from them. Answer: Done."""

    case: Case
    weight_seed: int


@dataclass(frozen=True)
class Forward:
    """To the worker: one forward on a drawn input, kept in the first folder with room. Answer: Output."""

    input_seed: int
    folders: tuple[str, ...]
    side: str = "candidate"


@dataclass(frozen=True)
class Check:
    """To the judge: gate the output at `path`, in its dtype, for the same input. Answer: Figures.

    With `oracle_s` the reference is the oracle, over as many sequences as so many seconds allow; `recompute`
    asks for the baseline against itself in float32, too.
    """

    input_seed: int
    path: str
    dtype: str
    oracle_s: float = 0.0
    recompute: bool = False


@dataclass(frozen=True)
class Rest:
    """To the judge: let go of the device's memory, the timing comes now. Answer: Done."""


@dataclass(frozen=True)
class Time:
    """To the worker: time baseline and candidate by the contract's protocol. Answer: Timed.

    `again`: then the baseline once more, as if it were a candidate. Without `baseline`, which may have no
    room, the candidate is timed alone.
    """

    again: bool = False
    baseline: bool = True


@dataclass(frozen=True)
class Warm:
    """To the worker: make ready for blocks of these sides, calling each so often. Answer: Warmed."""

    sides: tuple[str, ...]
    calls: int


@dataclass(frozen=True)
class Block:
    """To the worker: time `turns` turns of the sides. The call at position p has the input of `seed` + p.

    `order_seed` gives the order of the sides in every turn. Answer: Blocked.
    """

    number: int
    seed: int
    order_seed: int
    turns: int
    sides: tuple[str, ...]

    def order(self) -> list[str]:
        """Return the sides in the order of the calls: turns of every side once, each shuffled anew."""
        draw = random.Random(self.order_seed)  # noqa: S311 (the seed comes from the system's entropy)
        return [name for _ in range(self.turns) for name in draw.sample(self.sides, len(self.sides))]


@dataclass(frozen=True)
class Show:
    """To the worker: hand over the last block's output at a position, like Forward. Answer: Output."""

    position: int
    folders: tuple[str, ...]


@dataclass(frozen=True)
class Sprint:
    """To the worker: so many calls of one side back to back, on inputs from `seed` on. Answer: Sprinted."""

    side: str
    calls: int
    seed: int


@dataclass(frozen=True)
class Look:
    """To the worker, after Time: see what really runs. Answer: Looked.

    `call_ms` is what one call took while it was timed, by side; `profile` asks for the top of the work.
    """

    call_ms: dict[str, float]
    profile: bool


@dataclass(frozen=True)
class Repeat:
    """To the worker: time a side's calls on the input of `seed`, and on those after it. Answer: Repeated."""

    side: str
    calls: int
    seed: int


# --- replies ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ready:
    """Torch is there and the device works; the driver fills in what only it knows of the card."""

    device: Device


@dataclass(frozen=True)
class Done:
    """Done as asked."""


@dataclass(frozen=True)
class Facts:
    """What the worker has seen of the case so far; the fields are `CaseDone`'s."""

    route_ran: str = ""
    route_note: str = ""
    tf32: str = ""
    aliases_output: bool | None = None
    first_call_s: float | None = None
    compile_s: float | None = None
    peak_mem_mib: float | None = None
    flags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """Where the candidate's output lies: [B,S,D], raw, in the dtype that the candidate chose."""

    path: str
    dtype: str
    facts: Facts


@dataclass(frozen=True)
class Timed:
    """Every sample of both sides, in the order taken."""

    samples: tuple[Samples, ...]
    facts: Facts

    def call_ms(self) -> dict[str, float]:
        """Return each side's median time in milliseconds."""
        sides: dict[str, list[int]] = {}
        for part in self.samples:
            sides.setdefault(part.side, []).extend(part.values)
        return {side: statistics.median(ns) / 1e6 for side, ns in sides.items()}


@dataclass(frozen=True)
class Looked:
    """What really ran; the fields are `CaseDone`'s, and events of their own."""

    attention_backend: str
    flags: dict[str, str]
    profiles: tuple[Profile, ...] = ()


@dataclass(frozen=True)
class Warmed:
    """How many turns' outputs there is memory for, and about how long a turn takes."""

    room: int
    turn_ns: int


@dataclass(frozen=True)
class Blocked:
    """A block's samples, and how long it took by the worker's clock.

    `late` counts by side the calls for which the device may have waited for the host. `shared` outputs had
    memory in common with another or with an input; `changed` ones were not at the block's end what they were
    right after their call.
    """

    samples: tuple[Samples, ...]
    wall_ns: int
    late: dict[str, int]
    shared: int
    changed: int
    facts: Facts = field(default_factory=Facts)


@dataclass(frozen=True)
class Sprinted:
    """How long the calls took by the worker's timer."""

    span_ns: int


@dataclass(frozen=True)
class Repeated:
    """Times in nanoseconds of calls on new inputs, and on one that was seen before."""

    fresh: tuple[int, ...]
    again: tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """The request failed and the child lives; `kind` is the exception's class or a word for what is wrong."""

    status: str
    kind: str
    error: str


Request = (
    Hello
    | Load
    | Alone
    | Enter
    | Build
    | Forward
    | Check
    | Rest
    | Time
    | Look
    | Warm
    | Block
    | Show
    | Sprint
    | Repeat
)
Reply = Ready | Done | Output | Figures | Timed | Looked | Warmed | Blocked | Sprinted | Repeated | Problem
Message = Request | Reply
KINDS: dict[str, type[Any]] = {cls.__name__: cls for cls in typing.get_args(Message)}
