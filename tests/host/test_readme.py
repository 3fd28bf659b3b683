"""The README says what the code and the runs say."""

from __future__ import annotations

import re

import pytest

from tests import readme


@pytest.fixture(autouse=True)
def committed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The committed runs are the ones there are."""
    monkeypatch.setenv("FERRY_RUNS", str(readme.ROOT / "runs"))


def test_generated_blocks_are_current() -> None:
    """Commands, options, exit codes and results in the README are those of today's code and runs."""
    text = readme.README.read_text(encoding="utf-8")
    assert readme.regenerated(text) == text, "stale: run `make docs`"


def test_one_digit_of_a_generated_table_is_found_with_its_line() -> None:
    """The line is named, with what the run says."""
    text = readme.README.read_text(encoding="utf-8")
    assert "2.523×" in text
    (found,) = readme.stale(text.replace("2.523×", "2.533×"))
    number = text[: text.index("2.523×")].count("\n") + 1
    assert found.startswith(f"README.md:{number}: ")
    assert "2.523×" in found


def test_every_path_and_make_goal_in_the_readme_exists() -> None:
    """No link and no `make` goal leads nowhere."""
    text = readme.README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (readme.ROOT / target).exists(), target
    makefile = (readme.ROOT / "Makefile").read_text(encoding="utf-8")
    goals = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= goals
