"""What was taken back: `retractions.jsonl` in a run's folder, a line each, only ever added to.

A retracted row stays listed with its reason and counts in no total.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from builder.terminal import one_line

FILE = "retractions.jsonl"
WHOLE = ""  # stands for every case of a run


class Retracted(dict[str, str]):
    """Why cases were retracted, by case id; `WHOLE` is the run itself."""

    def why(self, case_id: str) -> str:
        """Return why a case does not count any more; empty when it does."""
        return self.get(WHOLE) or self.get(case_id, "")

    def describe(self) -> Iterator[str]:
        """Say for people what was taken back, a line each."""
        for case_id, because in self.items():
            yield one_line(f"retracted: {case_id or 'the whole run'}: {because}")


def read(folder: Path) -> Retracted:
    """Return what was retracted of the run in `folder`; a line that cannot be read retracts the whole run.

    Whoever damages the file must not bring a figure back.
    """
    try:
        text = (folder / FILE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return Retracted()
    found = Retracted()
    for line in filter(None, text.splitlines()):
        case_id, because = _read(line)
        found.setdefault(case_id, because)
    return found


def _read(line: str) -> tuple[str, str]:
    try:
        entry: Any = json.loads(line)
        return str(entry["case_id"]), str(entry["because"]) or "no reason given"
    except (ValueError, TypeError, KeyError, RecursionError):
        return WHOLE, f"a line of {FILE} cannot be read"
