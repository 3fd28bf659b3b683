"""The options that run, push and build share, and the spec that they add up to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from builder import config, places
from builder.accelerators import default_accelerator
from builder.config import Kind
from builder.errors import UsageError
from builder.opponents import find_opponent
from builder.spec import RunSpec, Selection, plan
from harness.shapes import PROTOCOLS, Case, parse_duration


class Duration(click.ParamType[float]):
    """`90s`, `9m`, `1.5h` or plain seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        try:
            return parse_duration(str(value))
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


class Share(click.ParamType[float]):
    """`1%` or 0.01: more than nothing and less than all; 0 is none."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share < 1:
            self.fail(f"{text!r} is no share: write 1% or 0.01", param, ctx)
        return share


class ConfiguredCommand(click.Command):
    """A command whose options also come from `FERRY_*` and from configuration files, in this order.

    They are named there as on the command line: `--as` is `FERRY_AS`, and `as` in a file.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the configuration just before the command line is read."""
        known = _configurable()
        own = {_key(option): option for option in self.params if _key(option) in known}
        for key, option in own.items():
            option.envvar = f"FERRY_{key.upper()}"
        if not {"--help", "-h"} & set(args):
            values = config.load(known)
            extra["default_map"] = {own[key].name: value for key, value in values.items() if key in own}
        return super().make_context(info_name, args, parent, **extra)


def _key(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len).lstrip("-").replace("-", "_")


def _kind(parameter: click.Parameter) -> Kind:
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return Kind.SWITCH
    return Kind.MANY if parameter.multiple else Kind.ONE


def _configurable() -> dict[str, Kind]:
    """The options of every configured command: a file is for all of them, and each takes its own."""

    @click.command
    @spec_options
    @WAIT
    @DETACH
    @NO_REHEARSAL
    @WAIT_FOR_SLOT
    def every(**_: Any) -> None:
        """Only holds options."""

    return {_key(parameter): _kind(parameter) for parameter in every.params}


DURATION = Duration()
SHARE = Share()
PATH = click.Path(path_type=Path)

option = click.option
_OPTIONS = (
    option("--suite", default="smoke", show_default=True, help="A named list of cases; see `ferry suites`."),
    option("--shapes", help="Which of the suite's shapes, as 1,2,8-13."),
    option("--route", "routes", multiple=True, help="A way to run the model; may be given several times."),
    option("--levers", multiple=True, metavar="K=V", help="An environment variable LEVER_K for every case."),
    option("--dtype", help="float32, float16 or bfloat16.  [default: float32]"),
    option("--protocol", type=click.Choice(PROTOCOLS), default="official", help="How times are taken."),
    option("--warmup", type=click.IntRange(min=0), help="Untimed calls a side."),
    option("--repeats", type=click.IntRange(min=1), help="Timed calls a round and side."),
    option("--rounds", type=click.IntRange(min=1), help="Rounds; the sides take turns in going first."),
    option("--target-ci", type=SHARE, default="0", help="Under strict: sample to this half-width, as 1%."),
    option("--seeds", type=click.IntRange(min=1), default=1, help="Weight seeds that the gate runs over."),
    option("--harness", type=PATH, help="Somebody's own harness, used byte for byte."),
    option("--harness-args", default="", help="Options of the contest's script, as one quoted string."),
    option(
        "--profile", "profiling", is_flag=True, help="Also report what each case spends the device's time on."
    ),
    option("--against", metavar="FILE|REF|RUN", help="Another version to compare with, in turns with yours."),
    option("--model", type=PATH, help="Your model: a file or a package."),
    option("--backend", help="Where to run, or several places, as kaggle,local; see `ferry backends`."),
    option("--accelerator", default="", help="What hardware to ask for; see `ferry accelerators`."),
    option("--allow-accelerator-mismatch", "allow_mismatch", is_flag=True, help="Run on whatever came."),
    option("--devices", type=click.IntRange(min=0), default=0, help="Cards to use at most; 0 is all."),
    option(
        "--timeout",
        type=DURATION,
        default="0",
        help="The kernel's own limit, as 9m; by default none, on Kaggle thrice the estimate.",
    ),
    option("--case-timeout", type=DURATION, default="30m", show_default=True, help="One case's limit."),
    option("--parts", type=click.IntRange(min=0), default=0, help="Parts at once on a place; see README."),
    option(
        "--reuse/--fresh",
        default=None,
        help="Take known results over, or run all anew; over several parts they are taken over.",
    ),
    option("--budget", "budget_s", type=DURATION, default="0", help="Device time for all parts, as 3h."),
    option(
        "--as", "form", type=click.Choice(["notebook", "script"]), default="notebook", help="What is pushed."
    ),
    option("--name", default="", help="A name of your own for the run."),
    option(
        "--internet", is_flag=True, help="Let the kernel reach the internet; Kaggle shuts it off otherwise."
    ),
    option("--device-packages", multiple=True, help="Modules installed where the kernel runs."),
)
WAIT = option("--wait", "patience_s", type=DURATION, default="0", help="How long to wait; 0 is for ever.")
DETACH = option("--detach", is_flag=True, help="Return once the run has started.")
WAIT_FOR_SLOT = option(
    "--wait-for-slot", is_flag=True, help="Wait here until the account has a free session."
)
NO_REHEARSAL = option("--no-rehearsal", is_flag=True, help="Skip the tiny case that runs here before a push.")


def spec_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a command, which hands them on to `make_spec` as they are."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command


_SELECTING = (
    "shapes",
    "routes",
    "levers",
    "dtype",
    "protocol",
    "warmup",
    "repeats",
    "rounds",
    "harness_args",
)


def make_spec(
    *,
    suite: str,
    model: Path | None,
    harness: Path | None,
    backend: str | None,
    accelerator: str,
    against: str | None,
    **rest: Any,
) -> RunSpec:
    """Return the spec that the shared options add up to. UsageError for a word that is none."""
    chosen = places.choose(backend, accelerator)
    for path, name in ((model, "--model"), (harness, "--harness")):
        if path and not path.exists():
            raise UsageError(f"{name}: there is nothing at {path}")
    selection = selection_of(suite=suite, model=model, against=against, **rest)
    if rest["target_ci"] and selection.protocol != "strict":
        raise UsageError("--target-ci is for protocol strict", "add --protocol strict")
    cases = plan(selection)
    _warn_of_unsent_levers(cases)
    return RunSpec(
        suite=suite,
        cases=cases,
        backend=chosen,
        accelerator=accelerator or ("" if places.SEPARATOR in chosen else default_accelerator(chosen)),
        model_path=str(model.resolve()) if model else "",
        against=_name_of(against),
        against_path=_files_of(against, model),
        harness_path=str(harness.resolve()) if harness else "",
        timeout_s=rest.pop("timeout"),
        case_timeout_s=rest.pop("case_timeout"),
        reuse=_reuses(chosen, rest.pop("reuse"), rest["parts"]),
        **{name: value for name, value in rest.items() if name not in _SELECTING},
    )


def _reuses(backend: str, asked: bool | None, parts: int) -> bool:
    """A sweep over several parts is dear; whoever asks one place for one part means to measure."""
    return (places.SEPARATOR in backend or parts > 1) if asked is None else asked


def selection_of(*, suite: str, model: Path | None, against: str | None, **rest: Any) -> Selection:
    """Return the cases that the shared options select; other options change nothing."""
    chosen = {name: rest[name] for name in _SELECTING}
    if against:
        chosen["protocol"] = "strict"  # only sides that take turns can be told apart
    return Selection(suite=suite, own_model=model is not None, **chosen)


def _name_of(against: str | None) -> str:
    """What a row and a sentence call the other version: paths in short."""
    return Path(against).name if against and Path(against).exists() else against or ""


def _files_of(against: str | None, model: Path | None) -> str:
    """Return the path of the other version; what git or a run has of it is there while the command runs."""
    if not against:
        return ""
    folder = click.get_current_context().with_resource(TemporaryDirectory(prefix="ferry-against-"))
    return str(find_opponent(against, model, Path(folder)))


def _warn_of_unsent_levers(cases: Sequence[Case]) -> None:
    """A lever in the shell changes nothing there: say so, since people tune with it here."""
    sent = {name for case in cases for name in case.levers}
    for name in sorted(name for name in os.environ if name.startswith("LEVER_") and name not in sent):
        click.secho(f"warning: {name} is set in this shell and not sent; use --levers", fg="yellow", err=True)
