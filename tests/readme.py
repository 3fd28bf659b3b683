"""Writes the generated blocks of README.md: `python -m tests.readme`; with `--check` it names stale lines.

A block lies between `<!-- begin: NAME [ARGUMENT] -->` and `<!-- end -->`; a function here is named like it.
"""

from __future__ import annotations

import csv
import functools
import inspect
import re
import sys
from collections.abc import Callable
from itertools import zip_longest
from math import exp, log
from pathlib import Path

import click

from builder import errors, retractions
from builder.cli.run import command as run_command
from builder.overview import commands as commands_of_ferry
from builder.overview import short_help
from builder.results import COLUMNS
from builder.stats import Comparison, Word
from harness.events import STATUSES, is_simulated
from harness.shapes import SUITES
from tests.command import run_ferry

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PUBLISHED = ROOT / "runs" / "published"
_BLOCK = re.compile(r"(<!-- begin: (\S+)(?: (\S+))? -->\n).*?(<!-- end -->)", re.DOTALL)


def commands(_: str) -> str:
    """Every command with its short help."""
    rows = [f"| `ferry {name}` | {short_help(path)} |" for name, path in commands_of_ferry().items()]
    return "\n".join(["| command | does |", "|---|---|", *rows])


def options(_: str) -> str:
    """The options of `ferry run`."""
    with click.Context(run_command, info_name="ferry run", max_content_width=100) as context:
        return f"```\n{run_command.get_help(context)}\n```"


def exit_codes(_: str) -> str:
    """The exit codes, from the tree of errors."""
    _, tree, rows = inspect.cleandoc(errors.__doc__ or "").split("\n\n")
    return f"```\n{tree}\n```\n\n{rows}"


def suites(_: str) -> str:
    """The suites."""
    rows = [f"| `{suite.name}` | {len(suite.shapes)} | {suite.about} |" for suite in SUITES.values()]
    return "\n".join(["| suite | shapes | what |", "|---|--:|---|", *rows])


def columns(_: str) -> str:
    """The columns of `results.csv` and the values of `status`."""
    statuses = ", ".join(f"`{status}`" for status in STATUSES)
    return f"`{', '.join(COLUMNS)}`\n\n`status` is one of {statuses}."


def run(run_id: str) -> str:
    """A published run's results as a table."""
    with (PUBLISHED / run_id / "results.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    if any(is_simulated(row["device"]) for row in rows):
        raise ValueError(f"run {run_id} has rows of a simulated device, which measure nothing")
    names = ("shape", "B S D H F L", "dtype", "status", "baseline ms", "ms", "speed-up", "95 %", "max abs")
    head = [f"| {' | '.join((*names, 'gate share'))} |", f"|{'---|' * 4}{'--:|' * 6}"]
    retracted = retractions.read(PUBLISHED / run_id)
    told = [{**row, "status": "retracted"} if retracted.why(row["case_id"]) else row for row in rows]
    notes = [f"{line}." for line in retracted.describe()]
    return "\n".join([*head, *map(_row, told), "", _total(told), *notes, "", _circumstances(rows[0], run_id)])


def _total(rows: list[dict[str, str]]) -> str:
    """The geomean of what was not retracted."""
    speedups = [float(row["speedup"]) for row in rows if row["speedup"] and row["status"] != "retracted"]
    if not speedups:
        return "No row has a speed-up that counts."
    geomean = exp(sum(map(log, speedups)) / len(speedups))
    return f"Geomean {geomean:.3f}× over the {len(speedups)} of {len(rows)} rows that have a speed-up."


def _row(row: dict[str, str]) -> str:
    sizes = " ".join(row[name] for name in ("batch", "seq_len", "d_model", "heads", "ffn_dim", "layers"))
    interval = f"{float(row['speedup_low']):.3f}–{float(row['speedup_high']):.3f}" if row["speedup"] else ""
    ratio = f"{_mark(row)}{float(row['speedup']):.3f}×" if row["speedup"] else ""
    times = [_short(row[name]) for name in ("baseline_median_ms", "median_ms")]
    errors_ = [_short(row[name]) for name in ("max_abs", "gate_share")]
    cells = [row["shape"], sizes, row["dtype"], row["status"], *times, ratio, interval, *errors_]
    return f"| {' | '.join(cells)} |"


def _mark(row: dict[str, str]) -> str:
    """What stands before a speed-up that lies within the noise."""
    ratio, low, high = (float(row[name]) for name in ("speedup", "speedup_low", "speedup_high"))
    word = Comparison(ratio, low, high, float(row["noise_floor"] or 0)).word
    return "" if word in (Word.FASTER, Word.SLOWER) else "~"


def _short(cell: str) -> str:
    return f"{float(cell):.3g}" if cell else ""


def _circumstances(row: dict[str, str], run_id: str) -> str:
    return (
        f"{row['device']}, driver {row['driver']}, torch {row['torch']}, protocol `{row['protocol']}`, "
        f"route `{row['route']}`, TF32 {row['tf32']}, {row['started_at']}; "
        f"raw log and samples: [`runs/published/{run_id}`](runs/published/{run_id})."
    )


def bench(name: str) -> str:
    """What gpuferry itself costs, as `make bench` measured it; other tables of the kind have a name."""
    return (PUBLISHED / "bench" / f"{name or 'bench'}.md").read_text(encoding="utf-8").strip()


@functools.cache
def demo(scene: str) -> str:
    """One of the demo's scenes, played anew: what it shows must be the same each time."""
    said = run_ferry("demo", scene).stderr.strip()
    return f"```\n{said}\n```"


BLOCKS: dict[str, Callable[[str], str]] = {
    "commands": commands,
    "options": options,
    "exit-codes": exit_codes,
    "suites": suites,
    "columns": columns,
    "run": run,
    "bench": bench,
    "demo": demo,
}


def regenerated(text: str) -> str:
    """Return the README's text with every block made anew."""
    return _BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]](found[3] or '')}\n{found[4]}", text)


def stale(text: str) -> list[str]:
    """Return each line of the README that is not what code and runs say, with its number."""
    pairs = zip_longest(text.split("\n"), regenerated(text).split("\n"))
    return [
        f"{README.name}:{number}: {has!r}, and code and runs say {made!r}; `make docs` writes it"
        for number, (has, made) in enumerate(pairs, 1)
        if has != made
    ]


if __name__ == "__main__":
    before = README.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--check"]:
        found = stale(before)
        print(*found, sep="\n", end="\n" if found else "")
        sys.exit(3 if found else 0)
    README.write_text(regenerated(before), encoding="utf-8")
    sys.exit(0)
