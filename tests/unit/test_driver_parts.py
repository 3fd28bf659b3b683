"""The small parts of the driver: limits, messages, figures over trials, places to write to."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cards import Card
from harness.channel import (
    Build,
    Facts,
    Figures,
    Message,
    Output,
    Problem,
    Ready,
    Timed,
)
from harness.environment import for_judge, for_worker
from harness.events import Device, Note, Samples, decode, pack_ns
from harness.exchange import Exchange, NotHandedOverError
from harness.hardware import as_seen
from harness.limits import CaseFailureError, Limits, Watch
from harness.outlet import EVENTS_FILE, Outlet, to_events_file, tolerant
from harness.serving import is_out_of_memory
from harness.shapes import SHAPES, Case, parse_duration
from harness.trials import Trial, gate_of, worst
from harness.wire import BrokenMessageError, pack, unpack

CASE = Case(SHAPES["t01"], levers={"LEVER_X": "1"}, route="sdpa")
MESSAGES: list[Message] = [
    Build(CASE, 1234),
    Ready(Device(-1, "cpu")),
    Output("/there", "float16", Facts(route_ran="sdpa", aliases_output=None, flags={"a": "b"})),
    Figures(False, 1, 2, math.inf, 0.5, math.inf),
    Timed((Samples("id", "baseline", 0, 0, pack_ns([1, 2**40])),), Facts(peak_mem_mib=1.5)),
    Problem("error", "ValueError", "two\nlines, ünïcode"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_come_back_whole(message: Message) -> None:
    """A message is one line, and unpacking gives the same message."""
    line = pack(message, 7)
    assert line.count(b"\n") == 1
    assert unpack(line) == (message, 7)


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"{}", b'["Nothing",{}]', b'["Build",{}]', b'["Check",{"path":1}]', b"\xff"),
        b'["Output",{"path":"","dtype":"","facts":{"compile_s":1' + b"0" * 400 + b"}}]",
        b"[" * 100_000,
    ],
)
def test_garbage_is_no_message(line: bytes) -> None:
    """What is no message is refused, whatever it is."""
    with pytest.raises(BrokenMessageError, match="is no message"):
        unpack(line)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("9m", 540), ("1.5h", 5400), (" 0.5m ", 30)]
)
def test_durations(text: str, seconds: float) -> None:
    """Seconds, minutes and hours are read, with a fraction."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1", "1d", "1h30m", "nan", "1e3", "1,5h"])
def test_what_is_no_duration(text: str) -> None:
    """Anything else is refused with the ways to write it."""
    with pytest.raises(ValueError, match="is no duration: write 90s"):
        parse_duration(text)


def test_run_ends_before_its_deadline() -> None:
    """The margin is 5 s, 2 % of a longer deadline, and never above a minute."""
    assert Limits(4).reason() == Limits(5).reason() == "deadline"
    assert Limits(6).reason() == Limits(0).reason() == ""
    assert not Limits(400).overdue(-390)
    assert Limits(400).overdue(-393)
    assert Limits(36_000).overdue(-35_941)
    assert not Limits(36_000).overdue(-35_939)


def test_stop_comes_before_a_deadline_and_not_after() -> None:
    """What ended the run first is the reason."""
    asked, late = Limits(0), Limits(1)
    asked.stop()
    late.stop()
    assert (asked.reason(), late.reason()) == ("stopped", "deadline")


def test_watch_tells_whose_time_is_up() -> None:
    """A case over its own limit has timed out; one that the run cuts was not run."""
    with pytest.raises(CaseFailureError, match="longer than its 1e-09 s") as own:
        Watch(Limits(0), 1e-9).check()
    with pytest.raises(CaseFailureError, match="deadline has come") as runs:
        Watch(Limits(1), 1e-9).check()
    assert (own.value.status, runs.value.status) == ("timeout", "not_run")
    Watch(Limits(0), 0).check()


@given(st.lists(st.floats(allow_nan=True), min_size=1))
def test_worst_is_nan_if_any_is(values: list[float]) -> None:
    """The worst of many figures is the largest, and nan is worse than infinity."""
    result = worst(values)
    assert math.isnan(result) == any(map(math.isnan, values))
    assert math.isnan(result) or result == max(values)


def test_gate_sums_counts_and_keeps_the_worst() -> None:
    """Counts add up over all trials; each figure is the worst of its kind, wherever it was."""
    trials = [Figures(True, 0, 10, 0.1, 5.0, 0.2), Figures(False, 3, 10, 0.4, 1.0, 1.5)]
    gate = gate_of([(Trial(CASE, 7, seed), part) for seed, part in enumerate(trials)])
    assert (gate.weight_seeds, gate.input_seeds, gate.worst_seeds) == ((7,), (0, 1), (7, 1))
    assert (gate.failed_elements, gate.total_elements) == (3, 20)
    assert (gate.max_abs, gate.max_rel, gate.gate_share) == (0.4, 5.0, 1.5)


def test_device_is_card_and_torch_together() -> None:
    """The card knows its number and driver, torch the capability, and whether it is but a slice."""
    card = Card(1, "Tesla T4", 15 * 2**30, "550.54", "GPU-b")
    seen = as_seen(card, Device(0, "Tesla T4", "7.5", 14_900, torch="2.13", threads=4))
    assert (seen.index, seen.driver, seen.capability, seen.memory_mib) == (1, "550.54", "7.5", 15_360)
    assert as_seen(card, Device(0, "Tesla T4 MIG 1g")).name == "Tesla T4 MIG 1g"
    assert as_seen(card) == Device(1, "Tesla T4", memory_mib=15_360, driver="550.54")


def test_environment_of_a_gpu_worker() -> None:
    """A worker sees one card, its own levers, its route, and caches beside no other card's."""
    outer = {"LEVER_OLD": "1", "HOME": "h", "CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "9"}
    card = Card(1, "Tesla T4", 1, pin="GPU-b")
    mine = for_worker(outer, card, Path("scratch"), CASE)
    assert mine["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    assert {name for name in mine if name.startswith("LEVER_")} == {"LEVER_X", "LEVER_ROUTE"}
    assert (mine["LEVER_ROUTE"], mine["HOME"], mine["OMP_NUM_THREADS"]) == ("sdpa", "h", "9")
    assert mine["TRITON_CACHE_DIR"] == str(Path("scratch") / "triton_cache_dir")
    assert not [name for name in for_judge(outer, card, Path("scratch")) if name.startswith("LEVER_")]


def test_place_that_fails_is_given_up(tmp_path: Path) -> None:
    """One place that cannot be written to any more does not keep the others from being written."""
    reader, writer = os.pipe()
    os.close(reader)
    outlet = Outlet("run", 1, 1, [tolerant(writer), to_events_file(tmp_path)])
    outlet.emit(Note("one"), Note("two"))
    outlet.emit(Note("last"), last=True)
    outlet.emit(Note("too late"))
    events = [decode(line) for line in (tmp_path / EVENTS_FILE).read_text().splitlines()]
    assert [event and event.name.seq for event in events] == [1, 2, 3]


def test_folder_that_takes_no_file_costs_the_file_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no events file can be made, stderr says so, and what is written there goes nowhere."""
    to_events_file(tmp_path / "gone")(b"an event")
    assert capsys.readouterr().err.endswith("gone: No such file or directory\n")


def test_exchange_leaves_nothing(tmp_path: Path) -> None:
    """The folder in memory comes first; each case finds all folders empty; none is left at the end."""
    memory, scratch = tmp_path / "memory", tmp_path / "scratch"
    memory.mkdir()
    scratch.mkdir()
    exchange = Exchange(scratch, memory)
    assert [Path(folder).parents[1] for folder in exchange.folders] == [memory, scratch]
    (Path(exchange.folders[0]) / "output.bin").write_bytes(b"1")
    exchange.take(exchange.folders[0] + "/output.bin")
    Path(exchange.folders[1]).rmdir()
    exchange.clear()
    left = [path for base in (memory, scratch) for path in base.rglob("*") if not path.is_dir()]
    assert left == []
    assert all(Path(folder).is_dir() for folder in exchange.folders)
    exchange.close()
    assert [*memory.iterdir(), *scratch.iterdir()] == []


def test_exchange_takes_only_files_that_were_handed_over(tmp_path: Path) -> None:
    """A link, a folder, and a file of somebody else's are not taken for an output, and stay as they are."""
    exchange = Exchange(tmp_path, tmp_path)
    folder, secret = Path(exchange.folders[0]), tmp_path / "secret"
    secret.write_bytes(b"1")
    (folder / "soft").symlink_to(secret)
    (folder / "hard").hardlink_to(secret)
    (folder / "folder").mkdir()
    for path in (secret, *folder.iterdir(), folder / "absent", folder / "..", Path("output.bin")):
        with pytest.raises(NotHandedOverError):
            exchange.take(str(path))
    assert secret.read_bytes() == b"1"
    (folder / "output.bin").write_bytes(b"2")
    assert Path(exchange.take(str(folder / "output.bin"))).read_bytes() == b"2"
    exchange.close()


def test_exchange_of_a_killed_run_is_removed(tmp_path: Path) -> None:
    """A folder in memory whose owner is gone is removed; one in use, however old, and a new one stay."""
    abandoned, new = tmp_path / "ferry-dead", tmp_path / "ferry-new"
    abandoned.mkdir()
    new.mkdir()
    (abandoned / "output.bin").write_bytes(b"1")
    used = Exchange(tmp_path, tmp_path)
    for folder in (abandoned, *(Path(folder).parent for folder in used.folders)):
        os.utime(folder, (0, 0))
    other = Exchange(tmp_path, tmp_path)
    assert not abandoned.exists()
    assert new.exists()
    assert Path(used.folders[0]).exists()
    used.close()
    other.close()


def test_exchange_without_memory_is_on_disk(tmp_path: Path) -> None:
    """Where there is no folder in memory, the one on disk is all."""
    exchange = Exchange(tmp_path, tmp_path / "absent")
    assert len(exchange.folders) == 1
    exchange.close()


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("out of resource: shared memory, Required: 270336"), False),
    ],
)
def test_what_is_out_of_memory(error: Exception, is_so: bool) -> None:
    """Every way in which CUDA says it counts; an op that wants too much of a core does not."""
    assert is_out_of_memory(error) is is_so
