"""A kernel needs nothing of ours where it runs: only Python and torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from builder.build import write_build
from builder.spec import RunSpec, Selection, plan
from tests.kernel.test_forms_agree import events, gist
from tests.packaging.environments import make_torch_environment


def test_a_kernel_gives_the_same_events_with_torch_alone(tmp_path: Path) -> None:
    """In an environment that holds only torch, at a path with a space: the events are those of a full one."""
    write_build(
        RunSpec("smoke", plan(Selection(shapes="3", routes=("sdpa", "compiled")))), tmp_path / "kernel"
    )
    alone = make_torch_environment(tmp_path / "a venv")
    listed = subprocess.run([alone, "-c", "import click"], capture_output=True, check=False)
    assert listed.returncode != 0, "the environment holds more than torch"
    logs: list[list[tuple[object, ...]]] = []
    for python in (str(alone), sys.executable):
        work = tmp_path / f"work{len(logs)}"
        work.mkdir()
        done = subprocess.run(
            [python, tmp_path / "kernel" / "kernel.py"], cwd=work, capture_output=True, check=True
        )
        logs.append([gist(event) for event in events(done.stdout.decode())])
    assert logs[0] == logs[1]
    assert logs[0][-1][3] == ("complete", {"passed": 2})
