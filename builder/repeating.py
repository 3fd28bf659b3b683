"""The command that asks for a spec: what the options of `ferry push` add up to, backwards."""

from __future__ import annotations

import contextlib
import itertools
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from builder.accelerators import default_accelerator
from builder.errors import UsageError
from builder.spec import PROBE, RunSpec, Selection, plan
from harness.shapes import SUITES, Case

_DEFAULT = RunSpec("", ())


def command_of(spec: RunSpec, verb: str = "push") -> list[str]:
    """Return the words of the command that makes this spec, in a folder without a ferry.toml.

    Raises UsageError when none does: its suite has changed since, or the cases are what another run lacked.
    """
    if spec.is_probe:
        return ["ferry", PROBE, *_where(spec), *(["--internet"] if spec.internet else [])]
    for selection, cases in _plans(spec):
        if cases == spec.cases:
            return _words(verb, selection, spec)
    raise _unmade(spec)


def command_for(case: Case, spec: RunSpec, verb: str = "push") -> list[str]:
    """Return the words of the command that makes one case of a spec, with as few others as options allow.

    Raises UsageError when none does.
    """
    found = [(len(cases), one) for one, cases in _plans(replace(spec, cases=(case,))) if case in cases]
    if not found:
        raise _unmade(spec)
    return _words(verb, min(found, key=lambda item: item[0])[1], spec)


def _plans(spec: RunSpec) -> Iterator[tuple[Selection, tuple[Case, ...]]]:
    for selection in _selections(spec):
        with contextlib.suppress(UsageError):
            yield selection, plan(selection)


def _words(verb: str, selection: Selection, spec: RunSpec) -> list[str]:
    return ["ferry", verb, *_what(selection), *_how(spec), *_where(spec), *_more(spec)]


def _unmade(spec: RunSpec) -> UsageError:
    return UsageError(
        f"no options of today make these cases of suite {spec.suite}",
        f"the stored kernel makes them: ferry rerun {spec.run_id}",
    )


def line_of(words: Sequence[str]) -> str:
    """Return the command as it is typed."""
    return shlex.join(words)


def _selections(spec: RunSpec) -> Iterator[Selection]:
    """Yield what may have been asked for, in the fewest words first."""
    cases, suite = spec.cases, SUITES.get(spec.suite)
    if not cases or suite is None:
        return
    first = cases[0]
    counts = {
        name: value for name, value in vars(first.counts).items() if value != getattr(suite.counts, name)
    }
    shared = set(first.levers.items()).intersection(*(case.levers.items() for case in cases))
    levers = tuple(f"{name}={value}" for name, value in first.levers.items() if (name, value) in shared)
    for chosen in itertools.product(
        dict.fromkeys(((), levers)),
        (None, *dict.fromkeys(case.dtype for case in cases)),
        _routes(cases),
        (None, ",".join(dict.fromkeys(case.shape.key for case in cases))),
    ):
        yield Selection(
            suite=spec.suite,
            levers=chosen[0],
            dtype=chosen[1],
            routes=chosen[2],
            shapes=chosen[3],
            protocol="strict" if first.protocol == "strict" else "official",
            harness_args=shlex.join(first.harness_args),
            own_model=bool(spec.model_path),
            **counts,
        )


def _routes(cases: Sequence[Case]) -> Iterable[tuple[str, ...]]:
    """The routes that may have been named: none, all there are, or all but those that only extras have."""
    every = tuple(dict.fromkeys(case.route for case in cases))
    yield ()
    for count in range(len(every), 0, -1):
        yield every[:count]


def _what(selection: Selection) -> Iterator[str]:
    yield from _given("--suite", selection.suite)
    yield from _given("--shapes", selection.shapes)
    for route in selection.routes:
        yield from _given("--route", route)
    for lever in selection.levers:
        yield from _given("--levers", lever)
    yield from _given("--dtype", selection.dtype)
    yield from _given("--protocol", selection.protocol if selection.protocol != "official" else None)
    for name in ("warmup", "repeats", "rounds"):
        yield from _given(f"--{name}", getattr(selection, name))
    yield from _given("--harness-args", selection.harness_args or None)


def _given(option: str, value: object) -> Iterator[str]:
    """An option as one word: its value may begin with a hyphen."""
    if value is not None:
        yield f"{option}={value}"


def _how(spec: RunSpec) -> Iterator[str]:
    for option, name in (("--seeds", "seeds"), ("--model", "model_path"), ("--harness", "harness_path")):
        if getattr(spec, name) != getattr(_DEFAULT, name):
            yield from _given(option, getattr(spec, name))
    if spec.target_ci:
        yield from _given("--target-ci", repr(spec.target_ci))
    if spec.against:
        path = Path(spec.against_path)
        yield from _given("--against", path if path.name == spec.against and path.exists() else spec.against)
    if spec.profiling:
        yield "--profile"


def _where(spec: RunSpec) -> Iterator[str]:
    yield from _given("--backend", spec.backend)
    if spec.accelerator != default_accelerator(spec.backend):
        yield from _given("--accelerator", spec.accelerator)
    if spec.allow_mismatch:
        yield "--allow-accelerator-mismatch"


def _more(spec: RunSpec) -> Iterator[str]:
    if spec.devices:
        yield from _given("--devices", spec.devices)
    for option, name in (("--timeout", "timeout_s"), ("--case-timeout", "case_timeout_s")):
        if getattr(spec, name) != getattr(_DEFAULT, name):
            yield from _given(option, _seconds(getattr(spec, name)))
    for option, name in (("--as", "form"), ("--name", "name")):
        if getattr(spec, name) != getattr(_DEFAULT, name):
            yield from _given(option, getattr(spec, name))
    if spec.internet:
        yield "--internet"
    for package in spec.device_packages:
        yield from _given("--device-packages", package)


def _seconds(value: float) -> str:
    """Return seconds as a duration that reads back to the same float."""
    return f"{value:f}" if float(f"{value:f}") == value else f"{value:.20f}"
