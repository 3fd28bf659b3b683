"""The compiled route: it compiles itself, and says so when it could not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from harness.baseline import TransformerConfig
from model import router
from model.routes import sdpa
from model.routes._attempt import first_cause
from tests.device.model_cases import inputs, pair, run

pytestmark = pytest.mark.usefixtures("one_thread")
PROJECT = Path(__file__).parents[2]
FORWARDS = """
import dataclasses, sys
from harness.baseline import TransformerConfig
from model import router
from model.routes import sdpa
from tests.device.model_cases import inputs, mask_of, pair, run
config = TransformerConfig(3, 16, 32, 4, 32, 1, True)
baseline, model = pair(config, route="compiled")
for batch, seq_len, kind in eval(sys.argv[1]):
    other = dataclasses.replace(config, batch_size=batch, seq_len=seq_len)
    x, mask = inputs(other), mask_of(kind, other)
    assert (run(model, x, mask) - run(baseline, x, mask)).abs().max() <= 2e-5
    print(model.route_ran, model.compile_s, model.route_note, sep="|")
"""


def forwards(tmp_path: Path, shapes: list[tuple[int, int, str]], **environment: str) -> list[list[str]]:
    """What a compiled model reports after each forward, in a process with an empty compile cache."""
    home = tmp_path / "python"  # a path without spaces, which the compiler's command lines do not survive
    home.symlink_to(sys.prefix)
    python = home / Path(sys.executable).relative_to(sys.prefix)
    done = subprocess.run(
        [python, "-W", "ignore", "-c", FORWARDS, repr(shapes)],
        cwd=PROJECT,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.split("|") for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_without_a_compiler_it_runs_as_sdpa_and_says_why(tmp_path: Path) -> None:
    """A missing compiler gives the right result by sdpa, with the first cause, tried once only."""
    first, second = forwards(tmp_path, [(3, 16, "full"), (3, 16, "holes")], CXX=str(tmp_path / "no-compiler"))
    ran, seconds, note = first
    assert ran == "sdpa"
    assert note.startswith("compilation failed: InvalidCxxCompiler: No working C++ compiler found")
    assert "no-compiler" in note
    assert float(seconds) > 0.0
    assert second == first


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_it_compiles_and_takes_another_shape(tmp_path: Path) -> None:
    """Compiled, a forward agrees with the baseline, also for a later batch of another size."""
    first, second, third = forwards(tmp_path, [(3, 16, "full"), (3, 16, "full"), (5, 20, "full")])
    assert [report[0] for report in (first, second, third)] == ["compiled"] * 3
    assert [report[2] for report in (first, second, third)] == [""] * 3
    assert 0.0 < float(first[1]) == float(second[1]) < float(third[1])


@pytest.mark.slow
def test_the_model_can_be_compiled_from_outside() -> None:
    """`torch.compile` around the model, as the contest's script can ask for, changes nothing it computes."""
    config = TransformerConfig(2, 16, 32, 4, 32, 1, True)
    baseline, model = pair(config)
    outside = torch.compile(model, backend="eager")
    x = inputs(config)
    assert (run(outside, x) - run(baseline, x)).abs().max() <= 2e-5


def test_out_of_memory_is_no_failed_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """When memory runs out the batch is chunked and the route stays compiled."""
    config = TransformerConfig(4, 16, 32, 4, 32, 1, True)
    _, model = pair(config, route="compiled")
    _, plain = pair(config, route="sdpa")
    x = inputs(config)
    expected = run(plain, x)

    def short_of_memory(part: Tensor, *rest: object) -> Tensor:
        if len(part) > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return sdpa.whole(part, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(router.load("compiled").__class__, "call", staticmethod(short_of_memory))
    assert torch.equal(run(model, x), expected)
    assert (model.route_ran, model.route_note, model.chunk_rows) == ("compiled", "", 2)


def test_the_first_cause_is_at_the_bottom_of_the_chain() -> None:
    """Of wrapped errors the innermost is told, by class and first line."""
    inner = OSError("disk full\nand more")
    middle = ValueError("in between")
    middle.__cause__ = inner
    outer = RuntimeError("backend failed")
    outer.inner_exception = middle  # type: ignore[attr-defined]
    assert first_cause(outer) == "OSError: disk full"
    assert first_cause(KeyError()) == "KeyError: "


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (
            b"In file included from a.cpp:1:\na.h:2: fatal error: Python.h: No such file",
            "Python.h: No such file",
        ),
        (b"ld: cannot find -ltorch\ncollect2: error: ld returned 1 exit status", "ld: cannot find -ltorch"),
        ("a.cpp:3: error: no such type", "a.cpp:3: error: no such type"),
        (b"", "returned non-zero exit status 1."),
    ],
)
def test_of_a_program_that_failed_its_own_words_are_told(output: str | bytes, told: str) -> None:
    """What the C++ compiler or its linker wrote is the cause, not the long command it was given."""
    cause = first_cause(subprocess.CalledProcessError(1, ["g++", "a.cpp"], output=output))
    assert cause.startswith("CalledProcessError: ")
    assert cause.endswith(told)
