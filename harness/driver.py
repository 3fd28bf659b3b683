"""The driver: carries an order out on this machine and reports every step as an event. Standard library only.

    python -m harness.driver ORDER.json [--run RUN.json] [--deadline 9m] [--continue FILE] [--rehearse]

It never imports torch: judge and worker do, one of each for every card. Exit code 0 when the run could be
closed, whatever became of its cases; 2 for wrong usage; 1 when a rehearsal did not pass.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from harness.carried import CannotContinueError, Carried, read_carried
from harness.events import Order, RunRef, from_plain
from harness.hardware import examine
from harness.isolation import keep_to_itself
from harness.limits import Limits
from harness.outlet import Outlet, to_events_file, to_stdout
from harness.process import ROOT
from harness.senses import Real
from harness.shapes import SHAPES, Counts, parse_duration, parse_settings
from harness.simulated import NoHardwareError, simulated_hardware
from harness.sweep import Sweep

T = TypeVar("T")


class UsageError(ValueError):
    """What the driver was given makes no sense; the text says what and where."""


@dataclass(frozen=True)
class Options:
    """The command line."""

    order: Path
    run: Path | None
    deadline_s: float
    earlier: Path | None
    attempt: int
    rehearse: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out an order; see the module's docstring."""
    options = parse_arguments(arguments)
    try:
        order = read_order(options)
        carried = read_earlier(options, order)
        simulated = simulated_hardware()
    except (UsageError, CannotContinueError, NoHardwareError) as problem:
        print(f"harness.driver: {problem}", file=sys.stderr)
        return 2
    limits = Limits(min((s for s in (options.deadline_s, order.terms.timeout_s) if s), default=0.0))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: limits.stop())
    places = [to_stdout()] if options.rehearse else [to_stdout(), to_events_file(Path.cwd())]
    keep_to_itself()
    outlet = Outlet(carried.ref.run_id, carried.ref.part, carried.attempt, places)
    sweep = Sweep(order, carried, limits, outlet)
    sweep.announce()
    machine = examine(order, simulated or Real(limits), online=not options.rehearse)
    wrong = sweep.refuse_wrong_accelerator(machine)
    sweep.close("wrong_accelerator" if wrong else sweep.carry_out(machine.cards, ROOT / "scratch"))
    return 1 if options.rehearse and not sweep.passed else 0


def parse_arguments(arguments: Sequence[str] | None) -> Options:
    """Read the command line; argparse reports what is wrong with it and exits 2."""
    parser = argparse.ArgumentParser(prog="kernel.py", description=(__doc__ or "").partition("\n")[0])
    # The kernel gives these two; its user gives the others.
    parser.add_argument("order", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=_duration, default=0.0, metavar="9m", help="end before this time")
    parser.add_argument(
        "--continue", type=Path, dest="earlier", metavar="FILE", help="run what it is missing"
    )
    parser.add_argument(
        "--attempt", type=int, default=1, metavar="N", help="number this attempt so, for a job begun anew"
    )
    parser.add_argument("--rehearse", action="store_true", help="run one tiny case on the CPU instead")
    given = parser.parse_args(arguments)
    return Options(given.order, given.run, given.deadline, given.earlier, given.attempt, given.rehearse)


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def read_order(options: Options) -> Order:
    """Read the order. Raises UsageError when there is none in the file, or none that makes sense."""
    order = _read(options.order, Order)
    for case in order.cases:
        try:
            parse_settings(case.harness_args)
        except ValueError as problem:
            raise UsageError(f"{options.order}, {case.id}: {problem}") from problem
    if len({case.id for case in order.cases}) < len(order.cases):
        raise UsageError(f"{options.order} orders a case twice")
    return rehearsal(order) if options.rehearse else order


def rehearsal(order: Order) -> Order:
    """Return an order for one tiny case on the CPU that goes the way of the order's first case, if any."""
    terms = replace(
        order.terms, asked_accelerator="cpu", asked_count=0, asked_capability="", devices=1, seeds=1
    )
    if order.is_probe:
        return Order(terms, ())
    first = order.cases[0]
    case = replace(
        first,
        shape=SHAPES["t01"],
        protocol="short",
        counts=Counts(1, 1, 1),
        harness_args=(*first.harness_args, "--accuracy-trials", "1"),
    )
    return Order(terms, (case,))


def read_earlier(options: Options, order: Order) -> Carried:
    """Return whose run this is and what was done of it. A run without an id gets one.

    An attempt that is continued makes its successor's number, unless `--attempt` asks for a higher one.
    Raises UsageError and CannotContinueError.
    """
    ref = RunRef() if options.run is None else _read(options.run, RunRef)
    carried = Carried(ref) if options.earlier is None else read_carried(options.earlier, ref, order)
    carried = replace(carried, attempt=max(carried.attempt, options.attempt))
    if carried.ref.run_id:
        return carried
    run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
    return replace(carried, ref=replace(carried.ref, run_id=run_id))


def _read(path: Path, kind: type[T]) -> T:
    try:
        return from_plain(kind, json.loads(path.read_text(encoding="utf-8")))
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror}") from problem
    except (TypeError, ValueError) as problem:
        raise UsageError(f"{path} is no {kind.__name__}: {problem}") from problem


if __name__ == "__main__":
    sys.exit(main())
