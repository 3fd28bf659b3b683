"""Code blocks that a document marks are run as a reader would, and one that does not work is found."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from builder.runnable import Runnable, misses, runnables
from tests.command import ROOT, run_ferry

MARK = "<!-- ferry audit runs this -->"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout with a tracked file in a folder, and one that git does not track."""
    folder = tmp_path / "a checkout"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "kept.txt").write_text("kept\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "add", "."], check=True)
    (folder / "docs" / "loose.txt").write_text("loose\n")
    return folder


def found_in(block: str, checkout: Path, mark: str = MARK) -> list[str]:
    """What is found in a document with one marked block."""
    text = f"# Title\n\nText.\n{mark}\n```\n{block}\n```\n"
    found = list(misses(text, checkout / "docs", checkout))
    assert all(miss.line in (4, 5) for miss in found)
    return [miss.sentence for miss in found]


def test_a_block_runs_in_a_copy_of_what_git_tracks(checkout: Path) -> None:
    """It stands where the document does, may change what it likes, and later lines know of earlier ones."""
    block = "$ cat kept.txt\nkept\n$ test ! -e loose.txt\n$ echo more >> kept.txt; cd ..\n$ test -d docs"
    assert found_in(block, checkout) == []
    assert (checkout / "docs" / "kept.txt").read_text() == "kept\n"


def test_a_block_ends_as_its_mark_says(checkout: Path) -> None:
    """Any other exit is found, with the last thing that it said; the first command that fails ends it."""
    assert found_in("echo so; exit 3", checkout) == ["this block ends with exit 3, not 0: so"]
    assert found_in("false\ntrue", checkout) == ["this block ends with exit 1, not 0: it says nothing"]
    assert found_in("exit 3", checkout, MARK.replace(" -->", ": exit 3, 20 s -->")) == []
    assert found_in("true", checkout, MARK.replace(" -->", ": exit 3 -->")) == [
        "this block ends with exit 0, not 3: it says nothing"
    ]
    late = found_in("sleep 60 & sleep 60", checkout, MARK.replace(" -->", ": 1 s -->"))
    assert late == ["this block takes longer than 1 s"]


def test_a_block_has_no_network_and_no_credentials(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that is nobody, this machine's ports shut where the system can do that, an empty home."""
    monkeypatch.setenv("KAGGLE_API_TOKEN", "secret")
    monkeypatch.setenv("MY_ACCESS_TOKEN", "secret")
    assert found_in('! env | grep secret\ntest -z "$(ls -A ~)"\ntest $https_proxy', checkout) == []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        call = f"python -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
        can_shut = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
        if can_shut.returncode == 0:
            assert found_in(call, checkout)[0].startswith("this block ends with exit 1, not 0: OSError")


def test_ferry_and_python_are_those_that_audit(checkout: Path) -> None:
    """A wrong option is found with what ferry says of it; runs are those of the copy."""
    (told,) = found_in("python3 -c 'import builder'\nferry ls\nferry ls --devise h200", checkout)
    assert told.startswith("this block ends with exit 2, not 0: ")


def test_marks_that_say_nothing_are_found() -> None:
    """Other words, and a mark before something that is no shell; an unmarked block is left alone."""
    quickly = MARK.replace(" -->", ": quickly -->")
    text = f"{MARK}\n```python\n1/0\n```\n\n{quickly}\n```\nls\n```\n\n```\nls\n```\n"
    first, second = runnables(text)
    assert not isinstance(first, Runnable)
    assert not isinstance(second, Runnable)
    assert (first.sentence, second.line) == ("no block of shell follows", 6)
    assert "'quickly' says nothing" in second.sentence
    [one] = runnables(f"{MARK}\n\n```sh\nls\n```\n")
    assert isinstance(one, Runnable)
    assert (one.line, one.script, one.exit_code) == (3, "ls", 0)


def test_audit_runs_them_when_it_is_told_to(checkout: Path) -> None:
    """A document of somebody else runs nothing on this machine unasked."""
    document = checkout / "docs" / "a.md"
    document.write_text(f"{MARK}\n```\nexit 7\n```\n")
    unasked = run_ferry("audit", str(document), cwd=ROOT)
    assert unasked.returncode == 0
    assert "1 marked code blocks were not run; --run runs them" in unasked.stderr
    asked = run_ferry("audit", str(document), "--run", cwd=ROOT)
    assert asked.returncode == 3
    assert f"{document}:2: this block ends with exit 7, not 0" in asked.stderr
