"""The README says what the code and the runs say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import readme


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


def test_simulated_rows_are_never_shown_as_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on made-up hardware cannot become a table of the README."""
    monkeypatch.setattr(readme, "PUBLISHED", tmp_path)
    (tmp_path / "run").mkdir()
    header = "shape,device,speedup\n"
    (tmp_path / "run" / "results.csv").write_text(f"{header}s01,Tesla T4,\ns02,simulated Tesla T4,2.0\n")
    with pytest.raises(ValueError, match="rows of a simulated device"):
        readme.run("run")
