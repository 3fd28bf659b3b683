"""What is known of one run, for people and programs: state, cost, provenance, files, how to repeat it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from builder import reading, repeating, results, retractions
from builder.errors import FerryError, UsageError
from builder.reading import Reading
from builder.results import Row
from builder.runs import Run
from builder.spec import RunSpec
from builder.terminal import one_line

_HASHES = ("bundle_sha256", "kernel_sha256", "harness_sha256", "model_sha256")
_FLAGS = ("clocks", "throttle", "card_before", "card_after", "isolated", "unsealed")


@dataclass(frozen=True)
class Shown:
    """A run's facts by heading, each a name and a value; `commands` repeat it."""

    facts: dict[str, dict[str, str]]
    files: dict[Path, int]
    commands: tuple[str, ...]
    notes: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield it for people."""
        for heading, facts in self.facts.items():
            told = {name: value for name, value in facts.items() if value}
            if told:
                yield heading
                yield from (f"  {name:<12} {one_line(value)}" for name, value in told.items())
        yield "files"
        yield from (f"  {size:>12,}  {path}" for path, size in self.files.items())
        yield from map(one_line, self.notes)
        yield "repeat"
        yield from (f"  {command}" for command in self.commands)


def show(run: Run) -> Shown:
    """Gather what is known of a run. UsageError when its spec cannot be read; all else may be missing."""
    spec, notes = run.spec, list(retractions.read(run.folder).describe())
    found: Reading | None = None
    try:
        found = reading.of_run(run)
        notes += [f"note: {problem}" for problem in found.records.problems]
    except FerryError as problem:
        notes.append(f"note: {problem.message}")
    facts = {
        f"run {run.id}": _stand(run, spec, found),
        "cost": _cost(run, found),
        "provenance": {**_code(run, spec), **_machine(found.rows if found else ())},
    }
    return Shown(facts, _files(run.folder), _commands(spec), tuple(notes))


def _stand(run: Run, spec: RunSpec, found: Reading | None) -> dict[str, str]:
    on = {part: f" on {run.part_spec(part).backend}" if spec.is_dealt else "" for part in run.parts()}
    parts = [f"part {part}{place} {run.state(part) or 'new'}" for part, place in on.items()]
    rows = found.rows if found else ()
    counts = ", ".join(f"{count} {status}" for status, count in results.counts(rows).items())
    submissions = [run.submission(part) for part in run.parts()]
    return {
        "state": ", ".join(filter(None, [run.state(0), *parts])),
        "suite": f"{spec.suite}, {len(spec.cases)} cases",
        "rows": counts,
        "name": spec.name,
        "place": " ".join(filter(None, [spec.backend, spec.accelerator])),
        "url": ", ".join(one.url for one in submissions if one and one.url),
        "created": spec.created_at,
        "folder": str(run.folder),
    }


def _cost(run: Run, found: Reading | None) -> dict[str, str]:
    """The host's wall time is from acceptance to the end, the device's is the drivers' own."""
    ends = [attempt.end for attempt in found.records.attempts if attempt.end] if found else []
    device_s = sum(end.wall_s for end in ends)
    times = {part: _span_s(run, part) for part in run.parts()}
    wall_s = sum(times.values())
    is_kaggle = "kaggle" in [name.partition(":")[0] for name in run.spec.backend.split(",")]
    return {
        "wall time": f"{wall_s:,.0f} s from acceptance to the end" if wall_s else "",
        "device time": f"{device_s:,.1f} s in {len(ends)} attempts" if ends else "not known",
        "quota": f"about {max(device_s, wall_s) / 3600:.2f} h of the week"
        if is_kaggle
        else "none is counted",
    }


def _span_s(run: Run, part: int) -> float:
    """Return how long a part was under way, in seconds, as the journal has it."""
    own = run.journal(part)
    begun = [entry.at for entry in own if entry.state == "queued"]
    ended = [entry.at for entry in own if entry.state in ("done", "failed", "cancelled", "lost")]
    try:
        return (datetime.fromisoformat(ended[0]) - datetime.fromisoformat(begun[0])).total_seconds()
    except (IndexError, ValueError, TypeError):
        return 0.0


def _code(run: Run, spec: RunSpec) -> dict[str, str]:
    dirty = " with changes that were not committed" if spec.git_dirty else ", clean"
    return {"git": f"{spec.git_commit}{dirty}" if spec.git_commit else "in no checkout"} | hashes(run)


def hashes(run: Run) -> dict[str, str]:
    """Return the hashes of what was sent, by what they are of; none where `bundle.json` cannot be read."""
    for part in run.parts()[:1]:
        try:
            facts: Any = json.loads((run.part(part) / "bundle.json").read_text(encoding="utf-8"))
            return {name.removesuffix("_sha256"): str(facts[name]) for name in _HASHES}
        except (OSError, ValueError, KeyError, TypeError):
            break
    return {}


def _machine(rows: Iterable[Row]) -> dict[str, str]:
    """What the rows say of where they were measured; several values stand side by side."""
    timed = [row for row in rows if row.device]
    told = {
        name: _each(str(getattr(row, name)) for row in timed)
        for name in ("device", "capability", "driver", "torch", "triton", "python")
    }
    flags = {name: _each(row.flags.get(name, "") for row in timed) for name in _FLAGS}
    return told | flags


def _each(values: Iterable[str]) -> str:
    different = list(dict.fromkeys(filter(None, values)))
    more = f" and {len(different) - 3} more" if len(different) > 3 else ""
    return ", ".join(different[:3]) + more


def _files(folder: Path) -> dict[Path, int]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path: path.stat().st_size for path in paths}


def _commands(spec: RunSpec) -> tuple[str, ...]:
    """The command with today's code, and the one that sends the stored kernel again."""
    stored = f"ferry rerun {spec.run_id}"
    try:
        return repeating.line_of(repeating.command_of(spec)), stored
    except UsageError:
        return (stored,)
