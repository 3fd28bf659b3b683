"""The README says what the code and the runs say."""

from __future__ import annotations

import re

from tests import readme


def test_generated_blocks_are_current() -> None:
    """Commands, options, exit codes and results in the README are those of today's code and runs."""
    text = readme.README.read_text(encoding="utf-8")
    assert readme.regenerated(text) == text, "stale: run `make docs`"


def test_every_path_and_make_goal_in_the_readme_exists() -> None:
    """No link and no `make` goal leads nowhere."""
    text = readme.README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (readme.ROOT / target).exists(), target
    makefile = (readme.ROOT / "Makefile").read_text(encoding="utf-8")
    goals = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= goals
