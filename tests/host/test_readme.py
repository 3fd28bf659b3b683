"""The README says what the code and the runs say."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests import readme


@pytest.fixture(autouse=True)
def committed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The committed runs are the ones there are."""
    monkeypatch.setenv("FERRY_RUNS", str(readme.ROOT / "runs"))


def stale(text: str) -> list[str]:
    """What is stale in a text, by a process of its own: what was imported here would be listed too."""
    code = "import json, sys; from tests import readme; print(json.dumps(readme.stale(sys.stdin.read())))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=readme.ROOT, input=text, capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_generated_blocks_are_current() -> None:
    """Commands, options, exit codes and results in the README are those of today's code and runs."""
    assert stale(readme.README.read_text(encoding="utf-8")) == [], "run `make docs`"


def test_one_digit_of_a_generated_table_is_found_with_its_line() -> None:
    """The line is named, with what the run says."""
    text = readme.README.read_text(encoding="utf-8")
    assert "2.523×" in text
    (found,) = stale(text.replace("2.523×", "2.533×"))
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
