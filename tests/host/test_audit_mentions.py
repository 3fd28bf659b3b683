"""A document mentions only commands, options, paths and runs that there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import ROOT, run_ferry

RUN = "20261130-134228-5a8555"
SOUND = f"""\
# A project of somebody's

Run `ferry run --suite
official`, or `pull --no-wait`; `ferry COMMAND --help` says more. `--deadline` is the kernel's own. See
[the notes](notes/first.md) and `notes/`. In prose, ferry pul is no command; nor is `OWNER/SLUG` a path.

```
$ ferry push --harness-args '--no-allow-tf32' --name=x \\
    --suite official && ferry ls | grep --nothing    # ferry pul
ferry show {RUN}/s01 --why > notes/other.txt
ferry import <id> ferry.log
make all
```

<!-- begin: table -->
`ferry pul`
<!-- end -->
"""
FAULTY = """\
Start with `ferry pul`.

It was measured in `results/h100/`, as [the log](notes/gone.md) says, by `ferry run
--siute official`; and `--no-rehersal`.

```
ferry run \\
    --suite official
ferry ls --devise h100; ferry show 20260101-000000 -x
cat notes/gone.txt
make al
python -m notes.gone
```
~~~
ferry nothing
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's checkout with a few files."""
    for folder in (".git", "notes"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notes" / "first.md").write_text("")
    (tmp_path / "Makefile").write_text("all:\n\ttrue\n")
    return tmp_path


@pytest.fixture(autouse=True)
def runs_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """The committed runs are the ones there are."""
    monkeypatch.setenv("FERRY_RUNS", str(ROOT / "runs"))


def test_a_sound_document_passes(project: Path) -> None:
    """Placeholders, other programs' options, comments, what a command writes and generated blocks too."""
    (project / "README.md").write_text(SOUND)
    done = run_ferry("audit", "README.md", cwd=project)
    assert (done.returncode, done.stderr) == (0, "1 documents: 0 things in them are not so\n")


def test_each_thing_that_does_not_exist_is_named_with_its_line(project: Path) -> None:
    """A wrong command and option name the nearest right one."""
    (project / "README.md").write_text(FAULTY)
    done = run_ferry("audit", "README.md", "--json", cwd=project)
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 3
    assert document["found"] == [
        "README.md:1: there is no command `ferry pul`; the nearest is pull",
        "README.md:3: there is no notes/gone.md",
        "README.md:3: there is no results/h100/",
        "README.md:3: `ferry run` has no option --siute; the nearest is --suite",
        "README.md:4: no command has an option --no-rehersal; the nearest is --no-rehearsal",
        "README.md:9: `ferry ls` has no option --devise; the nearest is --device",
        "README.md:9: `ferry show` has no option -x",
        "README.md:9: there is no run 20260101-000000 here",
        "README.md:10: there is no notes/gone.txt",
        "README.md:11: there is no goal `make al`; the nearest is all",
        "README.md:12: there is no module notes.gone",
        "README.md:15: there is no command `ferry nothing`",
    ]


def test_the_projects_own_documents_mention_what_there_is() -> None:
    """README and changelog lead nowhere that does not exist."""
    done = run_ferry("audit", "README.md", "CHANGELOG.md", cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_what_is_no_document_is_one_sentence(project: Path) -> None:
    """A file that is not there, or not text, is exit 2."""
    (project / "picture.md").write_bytes(b"\xff\xfe\x00")
    for name in ("gone.md", "picture.md"):
        done = run_ferry("audit", name, cwd=project)
        assert done.returncode == 2
        assert f"{name} cannot be read as a document" in done.stderr
