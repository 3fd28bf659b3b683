"""What nvidia-smi says of a card, and what a row makes of it."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness import telemetry
from harness.cards import Card
from harness.sampler import Sampler
from harness.telemetry import Monitor, Reading, parse_processes, parse_reading

H200 = Card(0, "NVIDIA H200", 1, pin="GPU-aaaa")
BUSY = "1980, 3201, 44, 402.17, 97, 0x0000000000000000"
CAPPED = "1755, 3201, 61, 698.94, 100, 0x0000000000000004"
IDLE = "345, 3201, 31, 76.22, 0, 0x0000000000000001"
OLD_DRIVER = 'Field "clocks_event_reasons.active" is not a valid field to query.'


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Make this shell script the machine's nvidia-smi."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def card_that_says(*during: str, processes: str = "41") -> str:
    """An nvidia-smi that gives an idle reading, and in a loop these ones as soon as the timing begins."""
    looped = "".join(f"echo '{line}'; " for line in during)
    return (
        f'case "$*" in\n*compute-apps*) echo "{processes}";;\n'
        '*loop-ms*) while [ ! -e "$0.go" ]; do sleep 0.02; done; '
        f'{looped} echo done > "$0.said"; exec sleep 60;;\n'
        f"*) echo '{IDLE}';;\nesac"
    )


def timed(folder: Path, ours: Sequence[int] = (41,)) -> dict[str, str]:
    """The flags of one case, whose timing ends once the card has said all that it has to say."""
    monitor = Monitor(H200)
    monitor.begin()
    with monitor.timing(ours):
        (folder / "nvidia-smi.go").touch()
        end = time.monotonic() + 20
        while not (folder / "nvidia-smi.said").exists() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.1)
    monitor.close()
    return monitor.flags()


def test_card_under_a_steady_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, after and during are told; a clock that keeps still and a card of our own are said to be so."""
    install(tmp_path, monkeypatch, card_that_says(IDLE, BUSY, BUSY, BUSY))
    assert timed(tmp_path) == {
        "card_before": "345 MHz, memory 3201 MHz, 31 C, 76 W, 0 % busy",
        "card_after": "1980 MHz, memory 3201 MHz, 44 C, 402 W, 97 % busy",
        "clocks": "steady 1980>1980 MHz, 1980 to 1980",
        "throttle": "none",
        "other_processes": "0",
    }


def test_card_that_slows_down_is_flagged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that leaves the band, the reason that the card gives, and a stranger on it are named."""
    install(tmp_path, monkeypatch, card_that_says(BUSY, CAPPED, CAPPED, processes="41\n977"))
    flags = timed(tmp_path)
    assert flags["clocks"] == "moved 1980>1755 MHz, 1755 to 1980"
    assert flags["throttle"] == "sw_power_cap 2/3"
    assert flags["other_processes"] == "1"


def test_program_is_started_once_a_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One program repeats its query for all cases, whose last answer is the next one's first."""
    counted = f'echo "$*" >> "{tmp_path}/asked"\n'
    install(tmp_path, monkeypatch, counted + card_that_says(BUSY, CAPPED, BUSY))
    monitor = Monitor(H200)
    monitor.begin()
    with monitor.timing([41]):
        (tmp_path / "nvidia-smi.go").touch()
        end = time.monotonic() + 20
        while not (tmp_path / "nvidia-smi.said").exists() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.1)
    assert monitor.processes == {41}
    monitor.begin()
    assert monitor.flags()["card_before"].startswith("1980 MHz")
    monitor.close()
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [("loop" in line, "compute-apps" in line) for line in asked].count((True, False)) == 1
    assert len(asked) == 3


def test_older_drivers_name_for_the_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that does not know the newer name is asked by the older one."""
    refuse = f"case \"$*\" in *clocks_event_reasons*) echo '{OLD_DRIVER}'; exit 2;; esac\n"
    install(tmp_path, monkeypatch, refuse + card_that_says(CAPPED, CAPPED))
    assert timed(tmp_path)["throttle"] == "sw_power_cap 2/2"


def test_card_without_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that knows neither name still gives clocks; the reasons are unknown."""
    refuse = 'case "$*" in *reasons*) echo \'Field "x" is not a valid field to query.\'; exit 2;; esac\n'
    install(tmp_path, monkeypatch, refuse + card_that_says(*["1590, 5000, 60, 70.1, 99"] * 3))
    flags = timed(tmp_path)
    assert (flags["clocks"], flags["throttle"]) == ("steady 1590>1590 MHz, 1590 to 1590", "unknown")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "version mismatch"),
        ("exec sleep 60", "did not answer within 0.5 s"),
    ],
)
def test_silent_card_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    """A card that does not answer costs one deadline, then nothing, and the row says why."""
    monkeypatch.setattr(telemetry, "DEADLINE_S", 0.5)
    install(tmp_path, monkeypatch, f'echo x >> "$0.asked"\n{script}')
    monitor = Monitor(H200)
    for _ in range(2):
        monitor.begin()
        with monitor.timing([41]):
            pass
        (name, told), *others = monitor.flags().items()
        assert (name, others) == ("telemetry", [])
        assert why in told
    assert (tmp_path / "nvidia-smi.asked").read_text() == "x\n"


def test_machine_without_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no nvidia-smi the row says so; a slice of a card and a CPU are not asked."""
    monkeypatch.setenv("PATH", str(tmp_path))
    told = []
    for card in (H200, Card(0, "a slice", 1, pin="MIG-x"), Card(-1, "cpu", 1)):
        monitor = Monitor(card)
        monitor.begin()
        with monitor.timing([41]):
            pass
        told.append(monitor.flags())
    assert told[0] == {"telemetry": "none: nvidia-smi cannot be run: No such file or directory"}
    assert told[1] == {"telemetry": "none: a slice of a card has no clocks of its own"}
    assert told[2] == {}


def test_sampler_ends_with_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that repeats the query is gone after the stop, and what it printed is kept in order."""
    install(tmp_path, monkeypatch, f"echo $$ > \"$0.said\"; echo '{IDLE}'; echo '{BUSY}'; exec sleep 60")
    sampler = Sampler(["nvidia-smi"], parse_reading)
    end = time.monotonic() + 20
    while len(sampler.since(0)) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    sampler.stop()
    assert [reading.sm_mhz for reading in sampler.since(0)] == [345.0, 1980.0]
    pid = int((tmp_path / "nvidia-smi.said").read_text())
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("line", "reading"),
    [
        (BUSY, Reading(1980, 3201, 44, 402.17, 97, 0)),
        ("585, 405, 35, [N/A], [Not Supported], 0x0000000000000002", Reading(585, 405, 35, None, None, 2)),
        ("1980, 3201, 44, 402.17, 97, [Unknown Error]", Reading(1980, 3201, 44, 402.17, 97, None)),
        ("[N/A], [N/A], [N/A], [N/A], [N/A], [N/A]", None),
        ("Unable to determine the device handle for GPU0000:41:00.0: Unknown Error", None),
        ("", None),
    ],
)
def test_lines_of_nvidia_smi(line: str, reading: Reading | None) -> None:
    """What a card does not say is absent; a line without any value is no reading."""
    assert parse_reading(line) == reading


def test_processes_are_counted_where_ours_are_seen() -> None:
    """Outside's process ids, as a container sees them, tell nothing."""
    assert parse_processes("41\n977\n[N/A]\nNo running processes found\n") == {41, 977}
    assert telemetry.others({41, 977}, [41, 42]) == "1"
    assert telemetry.others({977}, [41]) == "unknown, 1 listed and none is ours"
    assert telemetry.others(set(), [41]) == "unknown, 0 listed and none is ours"


def test_too_few_readings_say_nothing_of_the_clock() -> None:
    """One reading under load is no movement, and idle readings are none."""
    idle, busy = parse_reading(IDLE), parse_reading(BUSY)
    assert idle and busy
    assert telemetry.clocks([idle, busy, idle]) == "unseen, 1 readings under load"
