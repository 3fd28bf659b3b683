"""What the host makes of profiles, and of flags that say how a figure came about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder import results
from builder.cli._notes import busy_lines, note
from builder.records import Records, read_records
from builder.results import Row
from harness.events import End, Profile, Work
from tests.unit.written_logs import CASES, lines_of, opened, timed

CASE = CASES[0]
TOP = (Work("void fmha_cutlassF(\x1b[2J)", 8, 30_000), Work("=sgemm,tn", 24, 10_000))


def read(folder: Path, *profiles: Profile) -> Records:
    """The records of a log of one case that passed with these profiles."""
    lines = lines_of([*opened([CASE]), *profiles, *timed(CASE), End("complete", {}, 1.0)])
    (folder / "log").write_text("\n".join(lines))
    return read_records([folder / "log"])


def test_profile_is_a_table_of_its_own(tmp_path: Path) -> None:
    """Each work has its rank, count and time for one call, and its share of all, the unshown included."""
    records = read(tmp_path, Profile(CASE.id, "candidate", 4, 60_000, TOP))
    lines = results.profile_csv(records).splitlines()
    assert lines[0] == "case_id,side,rank,name,per_call,us_per_call,share"
    assert lines[1].startswith(f"{CASE.id},candidate,1,void fmha_cutlassF(")
    assert lines[1].endswith(",2,7.5,0.5")
    assert lines[2] == f'{CASE.id},candidate,2,"=sgemm,tn",6,2.5,0.166667'
    assert "\x1b" not in results.profile_csv(records)
    (line,) = busy_lines(records)
    assert line.startswith(f"{CASE.id} candidate: 50% void fmha_cutlassF(")
    assert line.endswith("17% =sgemm,tn")


def test_without_profiles_there_is_no_table(tmp_path: Path) -> None:
    """A run that was not asked for a profile has no file and no line of one."""
    records = read(tmp_path)
    assert results.profile_csv(records) == ""
    assert list(busy_lines(records)) == []


def test_figures_that_no_float_can_hold_end_nothing(tmp_path: Path) -> None:
    """A profile of no call and of more nanoseconds than there are is written all the same."""
    records = read(tmp_path, Profile(CASE.id, "candidate", 0, 0, (Work("odd", 10**400, 10**400),)))
    assert results.profile_csv(records).splitlines()[1].startswith(f"{CASE.id},candidate,1,odd,9.22337e+18,")
    assert list(busy_lines(records))


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({}, ""),
        ({"host_bound": "no", "clocks": "steady 1980>1980 MHz, 1980 to 1980", "throttle": "none"}, ""),
        ({"host_bound": "yes"}, "host-bound"),
        ({"clocks": "moved 1980>1755 MHz, 1755 to 1980"}, "clocks moved"),
        ({"throttle": "sw_power_cap 3/9", "other_processes": "2"}, "throttled, shared card"),
        ({"throttle": "unknown", "other_processes": "unknown, 0 listed and none is ours"}, ""),
        ({"compiled": "9 graphs, recompile limit hit"}, "compilation fell back"),
        ({"compiled": "1 graphs", "tf32_ran": "yes", "baseline_tf32_ran": "no"}, "TF32 on one side"),
        ({"tf32_ran": "yes", "profile": "none: out of memory"}, ""),
    ],
)
def test_words_beside_a_row(tmp_path: Path, flags: dict[str, str], word: str) -> None:
    """What bears on a figure is said in a word; what is as it should be, or unknown, is not."""
    row: Row = results.rows(read(tmp_path))[0]
    assert note(replace(row, flags=flags)) == word
