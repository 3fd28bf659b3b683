"""How a run and one of its cases are named on the command line: RUN/CASE."""

from __future__ import annotations

from pathlib import Path


def run_and_case(word: str) -> tuple[str, str]:
    """Return the run and the case that a word names; the case is empty when only a run is meant.

    A run may be a folder, whose path has slashes of its own.
    """
    if (Path(word) / "spec.json").exists():
        return word, ""
    run, _, case = word.rpartition("/")
    return (run, case) if run else (word, "")
