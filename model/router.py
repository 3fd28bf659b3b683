"""Which routes there are, and which one a choice takes. Standard library only until a route is loaded.

A route is one file in `routes/`; its file name is its name. A name in `CHOICES` is no file: it stands for
what the router picks. It picks, in this order, what was measured fastest on this device at this shape, what
was at the nearest shape measured, what `rule` says; whatever refuses the input is passed over. The table is
`routes/table.json`, which `ferry tune` derives from committed runs.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from .routes import Route

AUTO = "auto"
SAFE = "safe"
NARROW = 128  # up to this width a block of rows stays on one processor through all layers
LAST = "sdpa"  # runs wherever torch does

CHOICES: dict[str, str] = {
    "auto": "what the model does unasked: `safe` where its route was measured on such a card, else `sdpa`",
    "safe": "the fastest whose error is of float32's class",
    "fast": "the fastest with tensor-core products of one part where half of the gate is never used",
    "fp16": "the fastest with float16 operands in every product, as many entries of the contest have",
}

ROUTES = Path(__file__).parent / "routes"
TABLE = ROUTES / "table.json"

# A neighbour takes the nearest measured shape's route within these many doublings.
REACH = {"d_model": 1.0, "seq_len": 2.0, "tokens": 3.0}


@dataclass(frozen=True)
class Problem:
    """What a choice depends on: a shape on a device, and whether float32 products may be TF32 there.

    `capability` is (0, 0) on a CPU.
    """

    device: str
    capability: tuple[int, int]
    dtype: str
    tf32: bool
    batch: int
    seq_len: int
    d_model: int
    heads: int
    ffn_dim: int
    layers: int
    causal: bool

    @property
    def tokens(self) -> int:
        """Tokens of one forward."""
        return self.batch * self.seq_len


@dataclass(frozen=True)
class Option:
    """A route that may be taken, under levers, and why it comes to be considered."""

    route: str
    why: str
    levers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A line of the table: what was the fastest for a choice, in which run."""

    choice: str
    problem: Problem
    route: str
    levers: dict[str, str]
    run: str
    measured: frozenset[str]  # the routes that were compared


def files() -> tuple[str, ...]:
    """The names of the routes, sorted: one for each file in `routes/`."""
    return tuple(sorted(path.stem for path in ROUTES.glob("[!_]*.py")))


def names() -> tuple[str, ...]:
    """Every name that may be asked for: the choices, then the routes."""
    return (*CHOICES, *files())


def load(name: str) -> Route:
    """A fresh route of that name; imports its file.

    Raises ValueError, with the known names, for a name that is no route's.
    """
    if name not in files():
        raise ValueError(f"unknown route {name!r}; known are: {', '.join(names())}")
    module = import_module(f"{__package__}.routes.{name}")
    return cast("type[Route]", module.Route)()


def options(choice: str, problem: Problem) -> Iterator[Option]:
    """What a choice may take for a problem, the best first; the last, `sdpa`, serves every input."""
    unasked, choice = choice == AUTO, SAFE if choice == AUTO else choice
    ruled = (*rule(choice, problem), LAST)
    # An entry decides among what was measured; it says nothing against a route that was not.
    entries = [entry for entry in table() if entry.choice == choice and ruled[0] in entry.measured]
    if unasked and all(entry.problem.capability != problem.capability for entry in entries):
        ruled = (LAST,)  # what no run has measured on such a card is not taken unasked
    entry = nearest(entries, problem)
    if entry is not None:
        yield Option(entry.route, f"measured in {entry.run}", entry.levers)
    for route in ruled:
        yield Option(route, "rule", served(route, choice))


def nearest(entries: list[Entry], problem: Problem) -> Entry | None:
    """The entry of the nearest shape on this device, on one of its capability, within REACH; else None.

    A route that compiles or captures for one shape is taken for that very shape only: met with ever new
    shapes it would do nothing else.
    """
    found = [(distance(entry, problem), entry) for entry in entries]
    near = [(far, entry) for far, entry in found if far == 0.0 or (far < math.inf and spreads(entry.route))]
    near.sort(key=lambda each: each[0])
    return near[0][1] if near else None


def distance(entry: Entry, problem: Problem) -> float:
    """How far a measured problem is from this one; infinite where it says nothing about it."""
    other = entry.problem
    same = all(getattr(other, name) == getattr(problem, name) for name in ("capability", "dtype", "causal"))
    if not same or (problem.dtype == "float32" and other.tf32 != problem.tf32):
        return math.inf
    steps = {name: doublings(getattr(other, name), getattr(problem, name)) for name in REACH}
    if any(steps[name] > reach for name, reach in REACH.items()):
        return math.inf
    rest = doublings(other.heads, problem.heads) + doublings(other.ffn_dim, problem.ffn_dim)
    # Another card of the same make, or another number of layers, is the least of differences.
    return (
        sum(steps.values())
        + rest / 4
        + 0.01 * doublings(other.layers, problem.layers)
        + (0.0 if other.device == problem.device else 0.01)
    )


def doublings(one: int, other: int) -> float:
    """How often one number is to be doubled to get the other, or the other way round."""
    return abs(math.log2(one / other))


def rule(choice: str, problem: Problem) -> tuple[str, ...]:
    """The routes to try where nothing near was measured, the best first."""
    if problem.capability == (0, 0):
        return ("compiled",) if choice == "fast" else ()
    if problem.capability < (8, 0):
        ours = ("cuda",) if problem.capability >= (7, 5) else ()
        return (*ours, "amp") if choice == "fp16" else ours
    return ("stack", "wide") if problem.d_model <= NARROW else ("wide",)


def lacking(problem: Problem) -> str:
    """What a device lacks for the ops that need tensor cores, "" when nothing: why a rule leaves them out."""
    if problem.capability == (0, 0):
        return "there is no GPU"
    major, minor = problem.capability
    return f"a GPU of capability {major}.{minor}" if problem.capability < (8, 0) else ""


def spreads(route: str) -> bool:
    """Whether a route costs nothing at a new shape."""
    return route not in {"compiled", "reduce", "fused", "graphed"}


def served(route: str, choice: str) -> dict[str, str]:
    """The levers under which a route serves a choice, as its file says; those of `safe` are the defaults."""
    module = import_module(f"{__package__}.routes.{route}")
    return cast("dict[str, dict[str, str]]", module.SERVES).get(choice, {})


@functools.cache
def table() -> tuple[Entry, ...]:
    """The table that `ferry tune` derives from committed runs; empty where there is none."""
    if not TABLE.is_file():
        return ()
    return tuple(map(_entry, json.loads(TABLE.read_text(encoding="utf-8"))["entries"]))


def _entry(line: dict[str, object]) -> Entry:
    shape, capability = cast("list[int]", line["shape"]), cast("str", line["capability"])
    major, _, minor = capability.partition(".")
    batch, seq_len, d_model, heads, ffn_dim, layers = shape
    problem = Problem(
        str(line["device"]),
        (int(major), int(minor)),
        str(line["dtype"]),
        bool(line["tf32"]),
        batch,
        seq_len,
        d_model,
        heads,
        ffn_dim,
        layers,
        bool(line["causal"]),
    )
    levers = cast("dict[str, str]", line["levers"])
    measured = frozenset(name.partition(" ")[0] for name in cast("dict[str, float]", line["ms"]))
    return Entry(str(line["choice"]), problem, str(line["route"]), levers, str(line["run"]), measured)
