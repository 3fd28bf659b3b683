"""What a probe has found, for people and programs."""

from __future__ import annotations

from builder.backends import Backend
from builder.cli._voice import document, say
from builder.crossing import Outcome
from builder.errors import Exit, IncompleteError
from builder.probing import Probe
from builder.runs import Run, now_text
from builder.terminal import one_line


def keep(run: Run, place: Backend, outcome: Outcome) -> Probe:
    """Keep what a probe's log tells of the machine. IncompleteError when it tells nothing."""
    hardware = outcome.records.hardware
    if hardware is None:
        part = run.parts()[-1]
        why = next((entry.detail for entry in reversed(run.journal(part))), "")
        said = f"the probe {run.id} is {run.told(part)} and has reported nothing"
        raise IncompleteError(said, why or f"see ferry logs {run.id}")
    probe = Probe(now_text(), place.name, place.account(), run.spec.accelerator, run.id, hardware)
    probe.keep()
    return probe


def probe_document(probe: Probe, code: Exit) -> dict[str, object]:
    """Return what programs are told of a probe."""
    content = {"probe": probe.plain(), "matches": not probe.hardware.finding}
    return document(content, run_id=probe.run_id, state="parsed", exit_code=code, files=[probe.file])


def tell_probe(probe: Probe) -> None:
    """Show people what came, line by line, and whether it is what was asked for."""
    finding = probe.hardware.finding
    for name, value in probe.facts().items():
        say(f"{name:10}  {one_line(str(value))}".rstrip())
    say(f"not what was asked for: {one_line(finding)}" if finding else "it is what was asked for")
    say(str(probe.file))
