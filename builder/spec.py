"""What a run is asked to do: frozen data, resolved from flags, environment and configuration files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from builder import declared
from builder.errors import UsageError
from harness.shapes import DTYPE_BYTES, OFFICIAL_COUNTS, SUITES, Case, Counts, Shape, Suite, parse_settings

PROBE = "probe"  # what stands for a suite in a run without cases, which only looks what hardware comes


@dataclass(frozen=True)
class RunSpec:
    """One run, as asked. Written to `spec.json` before anything is pushed and never changed.

    `model_path` and `harness_path` are empty for gpuferry's own; `accelerator` is what was asked for, empty
    for whatever the machine has; `form` is `notebook` or `script`; `device_packages` are import names that
    the user says are installed where the kernel runs; `internet`: the kernel may reach it. Times are in
    seconds, 0 is no limit. `target_ci` is the half-width of the speed-up's interval to sample for under
    `strict`, as a share; 0 is a fixed number. `against` is what the user calls a second model to compare
    with, `against_path` where its files are while the kernel is built.

    `backend` may name several places, joined by commas, that the cases are dealt over; `parts` is how many
    parts a place has at once, 0 for what it allows; `budget_s` is the device time that all parts may use.
    `reuse` takes results over that other runs have under the same key. `left_out` are cases that are not to
    be run, by id, and why; `known` those whose result is taken over from the run named.
    """

    suite: str
    cases: tuple[Case, ...]
    run_id: str = ""
    created_at: str = ""
    git_commit: str = ""
    git_dirty: bool = False
    name: str = ""
    backend: str = "local"
    accelerator: str = ""
    allow_mismatch: bool = False
    devices: int = 0
    seeds: int = 1
    timeout_s: float = 0.0
    case_timeout_s: float = 1800.0
    profiling: bool = False
    model_path: str = ""
    harness_path: str = ""
    form: str = "notebook"
    device_packages: tuple[str, ...] = ()
    internet: bool = False
    target_ci: float = 0.0
    against: str = ""
    against_path: str = ""
    parts: int = 0
    budget_s: float = 0.0
    reuse: bool = False
    left_out: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    @property
    def is_probe(self) -> bool:
        """Whether it only looks what hardware comes."""
        return self.suite == PROBE

    @property
    def is_dealt(self) -> bool:
        """Whether its cases are dealt part by part, rather than sent as one."""
        return "," in self.backend or self.parts > 1 or self.budget_s > 0 or self.reuse


@dataclass(frozen=True)
class Selection:
    """Which cases, in the user's words; None and empty mean what the suite says."""

    suite: str = "smoke"
    shapes: str | None = None
    routes: tuple[str, ...] = ()
    levers: tuple[str, ...] = ()
    dtype: str | None = None
    protocol: str = "official"
    warmup: int | None = None
    repeats: int | None = None
    rounds: int | None = None
    harness_args: str = ""
    own_model: bool = False


def routes() -> list[str]:
    """Return the names of gpuferry's own routes without importing any."""
    return [*declared.choices(), *(route.name for route in declared.files())]


def plan(selection: Selection) -> tuple[Case, ...]:
    """Return the cases that a selection names, in order and without doubles.

    Raises UsageError for an unknown suite, shape, route, dtype, lever or harness option.
    """
    suite = SUITES.get(selection.suite)
    if suite is None:
        raise UsageError(f"there is no suite {selection.suite!r}", f"suites: {', '.join(SUITES)}")
    counts = _counts(suite, selection)
    harness_args = _harness_args(selection.harness_args)
    short = selection.protocol == "official" and counts != OFFICIAL_COUNTS
    protocol = "short" if short else selection.protocol
    asked = _levers(selection.levers)
    if unknown := [] if selection.own_model else sorted(set(asked) - set(declared.levers())):
        raise UsageError(f"there is no lever {unknown[0]!r}", f"levers: {', '.join(declared.levers())}")
    cases = [
        Case(shape, route, {**setting, **asked}, dtype, protocol, counts, harness_args)
        for shape, route, setting, dtype in (*_product(suite, selection), *_extras(suite, selection))
    ]
    return tuple({case.id: case for case in cases}.values())


_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)

Wanted = tuple[Shape, str, dict[str, str], str]  # shape, route, levers, dtype


def _product(suite: Suite, selection: Selection) -> Iterator[Wanted]:
    settings = ({},) if selection.own_model else suite.lever_settings
    for setting in settings:
        for route in _routes(suite, selection):
            for shape in _shapes(suite, selection.shapes):
                yield shape, route, setting, _dtype(selection)


def _extras(suite: Suite, selection: Selection) -> Iterator[Wanted]:
    """Yield the extra rows that the selection leaves in: a route or dtype asked for is the only one."""
    keys = {shape.key: shape for shape in _shapes(suite, selection.shapes)}
    for extra in suite.extras:
        if extra.shape not in keys or (selection.dtype and selection.dtype != extra.dtype):
            continue
        if not extra.route:
            for route in _routes(suite, selection):
                yield keys[extra.shape], route, extra.levers, extra.dtype
        elif not selection.own_model and extra.route in (selection.routes or [extra.route]):
            yield keys[extra.shape], extra.route, extra.levers, extra.dtype


def _counts(suite: Suite, selection: Selection) -> Counts:
    asked = {name: getattr(selection, name) for name in ("warmup", "repeats", "rounds")}
    return replace(suite.counts, **{name: value for name, value in asked.items() if value is not None})


def _harness_args(text: str) -> tuple[str, ...]:
    try:
        args = tuple(shlex.split(text))
        parse_settings(args)
    except ValueError as problem:
        raise UsageError(
            f"--harness-args {text!r}: {problem}", "`python -m harness --help` lists the options"
        ) from None
    return args


def _levers(pairs: tuple[str, ...]) -> dict[str, str]:
    levers: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        # a row joins levers with semicolons
        if not (separator and _NAME.fullmatch(name) and value.isprintable() and ";" not in value):
            raise UsageError(
                f"--levers {pair!r} is not NAME=VALUE", "for example --levers LEVER_QKV=separate"
            )
        name = name if name.startswith("LEVER_") else f"LEVER_{name}"
        if levers.setdefault(name, value) != value:
            raise UsageError(
                f"--levers sets {name} to {levers[name]!r} and to {value!r}", "make a run for each setting"
            )
    return levers


def _routes(suite: Suite, selection: Selection) -> tuple[str, ...]:
    if selection.own_model:
        return _own_routes(selection.routes) or ("auto",)
    for route in selection.routes:
        if route not in routes():
            raise UsageError(f"there is no route {route!r}", f"routes: {', '.join(routes())}")
    return selection.routes or suite.routes


def _own_routes(names: tuple[str, ...]) -> tuple[str, ...]:
    """Somebody's model knows its own routes; a name must do in a case id."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a route", "use letters, digits and underscores")
    return names


def _dtype(selection: Selection) -> str:
    dtype = selection.dtype or "float32"
    if dtype not in DTYPE_BYTES:
        raise UsageError(f"there is no dtype {dtype!r}", f"dtypes: {', '.join(DTYPE_BYTES)}")
    return dtype


def _shapes(suite: Suite, text: str | None) -> list[Shape]:
    """Read `1,2,8-13`: numbers count within the suite's own numbering; whole keys such as s08 do too."""
    if text is None:
        return list(suite.shapes)
    places: dict[str, int] = {}
    for place, shape in enumerate(suite.shapes):
        places |= {shape.key: place, str(int(shape.key[1:])): place}
    wanted: list[Shape] = []
    for word in text.replace(" ", "").split(","):
        first, dash, last = word.partition("-")
        last = last if dash else first
        if first not in places or last not in places:
            known = ", ".join(shape.key for shape in suite.shapes)
            raise UsageError(f"suite {suite.name} has no shape {word!r}", f"its shapes: {known}")
        begin, end = places[first], places[last]
        if begin > end:
            raise UsageError(f"--shapes {word!r} goes backwards", f"write {last}-{first}")
        wanted += suite.shapes[begin : end + 1]
    return wanted
