"""A bundle on disk as a kernel unpacks it, and a way to run the real driver in it."""

import json
import os
import shutil
import site
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.events import (
    CaseDone,
    End,
    Event,
    Order,
    RunRef,
    Samples,
    Terms,
    decode,
    to_plain,
)
from harness.shapes import SHAPES, Case, Counts

PROJECT = Path(__file__).parents[2]
TINY_COUNTS = Counts(1, 2, 2)


@dataclass
class Log:
    """What one run of the driver has written, and how it ended."""

    lines: list[str]
    code: int | None = None
    stderr: str = ""
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        decoded = (decode(line) for line in self.lines)
        self.events = [event for event in decoded if event is not None]

    @property
    def chatter(self) -> list[str]:
        """The lines that are no events."""
        return [line for line in self.lines if decode(line) is None]

    @property
    def end(self) -> End:
        """The last event, which ends the run."""
        body = self.events[-1].body
        assert isinstance(body, End)
        return body

    @property
    def done(self) -> dict[str, CaseDone]:
        """How each case ended, by its id."""
        ends = [event.body for event in self.events if isinstance(event.body, CaseDone)]
        return {end.case_id: end for end in ends}

    def samples(self, case: Case) -> list[Samples]:
        """A case's samples."""
        found = [event.body for event in self.events if isinstance(event.body, Samples)]
        return [part for part in found if part.case_id == case.id]

    def kinds(self, attempt: int = 1) -> list[str]:
        """The names of the bodies' classes, in order."""
        return [type(event.body).__name__ for event in self.events if event.name.attempt == attempt]


@dataclass(frozen=True)
class Kernel:
    """An unpacked bundle and a working folder beside it."""

    root: Path
    folder: Path

    @property
    def events_file(self) -> Path:
        """Where the driver keeps its events."""
        return self.folder / "ferry-events.jsonl"

    def start(
        self, order: Order, *options: str, ref: RunRef | None = None, program: str = sys.executable
    ) -> subprocess.Popen[str]:
        """Start the driver in a group of its own, as a kernel's cell does; `program` is its Python."""
        (self.folder / "order.json").write_text(json.dumps(to_plain(order)))
        (self.folder / "run.json").write_text(json.dumps(to_plain(ref) if ref else {}))
        packages = [] if program == sys.executable else site.getsitepackages()
        python_path = os.pathsep.join([str(self.root), *packages])
        return subprocess.Popen(
            [program, "-m", "harness.driver", "order.json", "--run", "run.json", *options],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": python_path, "LEVER_LEFT_OVER": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )

    def run(
        self,
        order: Order,
        *options: str,
        ref: RunRef | None = None,
        program: str = sys.executable,
        patience_s: float = 240,
    ) -> Log:
        """Run the driver to its end."""
        driver = self.start(order, *options, ref=ref, program=program)
        try:
            stdout, stderr = driver.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            driver.kill()
            raise
        return Log(stdout.splitlines(), driver.returncode, stderr)

    def processes(self) -> list[str]:
        """The command lines of all processes that work in the folder, of whatever session."""
        found = []
        for link in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if link.readlink() == self.folder:
                    found.append((link.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    def wait_until_alone(self) -> None:
        """Wait until no process works in the folder any more; give up after a while."""
        end = time.monotonic() + 20
        while self.processes() and time.monotonic() < end:
            time.sleep(0.05)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A bundle with the faulty models and a contest script of somebody's own."""
    yield unpack(tmp_path_factory.mktemp("kernel"))


def unpack(base: Path) -> Kernel:
    """Lay a bundle and a working folder under `base`."""
    root, folder = base / "root", base / "working"
    folder.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "harness", root / "harness", ignore=ignore)
    shutil.copytree(PROJECT / "tests" / "models", root, ignore=ignore, dirs_exist_ok=True)
    script = (PROJECT / "tests" / "harnesses" / "independent.py").read_text()
    (root / "torch_transformer_benchmark.py").write_text(script)
    return Kernel(root, folder)


def case(fault: str = "", shape: str = "t05", **changes: object) -> Case:
    """A tiny case of the model with this fault; `changes` are the case's fields."""
    levers = {"LEVER_FAULT": fault} if fault else {}
    fields: dict[str, object] = {"levers": levers, "protocol": "short", "counts": TINY_COUNTS, **changes}
    return Case(SHAPES[shape], **fields)  # type: ignore[arg-type]


def order(*cases: Case, **changes: object) -> Order:
    """An order for these cases of the faulty model; `changes` are the terms' fields."""
    fields: dict[str, object] = {"asked_accelerator": "cpu", "model": "faulty", **changes}
    return Order(Terms("bundle", "harness", "model", **fields), cases)  # type: ignore[arg-type]
