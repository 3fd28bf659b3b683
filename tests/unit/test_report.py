"""The page of a report without a browser: its totals, its pictures, and that texts stay texts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from builder import reading
from builder.reports.html import alone, headline, report, totals
from builder.reports.lines import groups_of, lines_of
from harness.events import STATUSES
from harness.shapes import SHAPES, Case
from tests.unit.measured_logs import S01, S02, Measured, reading_of, write_log
from tests.unit.report_pages import ODD, Page, charts, page_of
from tests.unit.written_logs import BROKEN, CARD, GATE, RUN

H200 = replace(CARD, name="NVIDIA H200")
HOSTILE = ("<script>alert(1)</script>", "../../etc/passwd", "\x1b[31mred\x1b[0m", "名前\"'&", "{{ 7 * 7 }}")


def test_totals_are_median_geomean_range_and_how_many(tmp_path: Path) -> None:
    """Speed-ups of 2 and 8 have the geomean 4 and the median 5, over 2 of 3 gradeable cases of 4."""
    run = reading_of(
        tmp_path / "log",
        Measured(S01),
        Measured(S02, 2000, 250),
        Measured(replace(S01, shape=SHAPES["s03"]), None, None, status="error", gate=None),
        Measured(replace(S01, shape=SHAPES["s14"]), None, None, status="infeasible", gate=None),
    )
    [group] = groups_of(lines_of([run]))
    told = totals(group)
    assert told["geomean"].startswith(("4.0", "3.99"))
    assert told["median"].startswith(("5.0", "4.99"))
    assert told["gradeable"] == "2 of 3 have a speed-up"
    assert told["cases"] == "2 passed, 1 error, 1 infeasible"
    assert "over 2 of 3 gradeable cases" in headline([group])


def test_unlike_rows_are_never_blended(tmp_path: Path) -> None:
    """Runs on two cards have a total each, and the headline is no average of them."""
    slow = reading_of(tmp_path / "a", Measured(S01))
    fast = reading_of(tmp_path / "b", Measured(S01, 2000, 200), device=H200, run="20260102-030405-fedcba")
    groups = groups_of(lines_of([slow, fast]))
    assert [group.geomean and round(group.geomean.ratio) for group in groups] == [2, 10]
    assert headline(groups) == "2 groups, none blended with another: geomeans 2.00–10.00×"


def test_rows_that_met_no_device_belong_to_the_only_one(tmp_path: Path) -> None:
    """What was not run is in the total of the run's card, and makes no label longer."""
    row = Measured(S02, None, None, status="not_run", gate=None)
    run = reading_of(tmp_path / "log", Measured(S01), row)
    lost = replace(run, rows=(run.rows[0], replace(run.rows[1], device="")))
    assert [line.label for line in lines_of([lost])] == ["s01", "s02"]
    assert len(groups_of(lines_of([lost]))) == 1


def test_a_shape_without_a_reference_shows_what_there_is(tmp_path: Path) -> None:
    """Time, tokens a second, peak memory and its check stand where a speed-up would."""
    gate = replace(GATE, reference="oracle", coverage=0.25)
    case = replace(S01, shape=SHAPES["s14"])
    run = reading_of(tmp_path / "log", Measured(case, None, 3_000_000.0, gate=gate))
    [line] = lines_of([run])
    text, _ = page_of(run)
    told = alone(line)
    assert re.fullmatch(
        r"s14: 3,0\d\d ms, 1,0\d\d,\d\d\d tokens/s, peak 64 MiB, checked by oracle, .*", told
    ) or ("tokens/s, peak 64 MiB, checked by oracle, 0.25 of it" in told)
    assert told in text
    assert "no baseline at these sizes" in text


def test_rows_of_every_status_are_all_there(tmp_path: Path) -> None:
    """Each planned case has a row, whatever became of it, and every picture's marks lead to rows."""
    cases = [
        Measured(replace(S01, route=f"r{number}"), None, None, status=status, gate=BROKEN)
        for number, status in enumerate(STATUSES)
        if status not in ("passed", "unknown")
    ]
    run = reading_of(tmp_path / "log", Measured(S01), Measured(S02, noise=0.3), *cases)
    text, page = page_of(run)
    assert len(page.rows) == len(cases) + 2
    for chart in charts(run).values():
        assert set(chart.anchors) <= set(page.rows)
    assert all(f'data-status="{case.status}"' in text for case in cases)


def test_zero_passed_cases_are_said_and_not_averaged(tmp_path: Path) -> None:
    """Without a speed-up the headline counts what happened, and no picture of speed is drawn."""
    run = reading_of(tmp_path / "log", Measured(S01, None, None, status="oom", gate=None, error="CUDA out"))
    assert headline(groups_of(lines_of([run]))) == "no speed-up: 1 oom"
    assert not {"speed", "gate", "samples"} & set(charts(run))


def test_nan_and_infinity_are_texts_and_no_marks(tmp_path: Path) -> None:
    """A gate of NaN is in the table as nan, in no picture, and nowhere in the data."""
    run = reading_of(tmp_path / "log", Measured(S01), Measured(S02, gate=BROKEN, status="failed_gate"))
    text, page = page_of(run)
    assert ">nan</td>" in text and ">inf</td>" in text
    assert [datum["case"] for datum in page.specs["gate"]["data"]["values"]] == ["s01"]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """Markup, template code, paths and terminal escapes in names and errors add no tag and no escape."""
    tame = [Measured(Case(SHAPES["s01"], f"route{number}")) for number in range(len(HOSTILE))]
    wild = [Measured(Case(SHAPES["s01"], name), error=name, route_ran=name) for name in HOSTILE]
    device = replace(CARD, name="</script><img src=x onerror=alert(2)>")
    text, page = page_of(reading_of(tmp_path / "wild", *wild, device=device))
    _, plain = page_of(reading_of(tmp_path / "tame", *tame, device=ODD))
    assert [tag for tag in page.tags if tag != "p"] == [tag for tag in plain.tags if tag != "p"]
    assert "\x1b" not in text and "{{ 7 * 7 }}" in text


def test_simulated_rows_are_shown_and_count_nowhere(tmp_path: Path) -> None:
    """A made-up card has rows, a warning, no total and no picture."""
    run = reading_of(tmp_path / "log", Measured(S01), device=replace(CARD, name="simulated Tesla T4"))
    text, page = page_of(run)
    assert page.specs == {} and "passed (simulated)" in text
    assert headline(groups_of(lines_of([run]))) == "a simulated device: these rows measure nothing"


def test_retracted_rows_are_shown_and_count_nowhere(tmp_path: Path) -> None:
    """What was taken back keeps its row with the reason, and leaves totals and pictures."""
    folder = tmp_path / RUN
    write_log(folder / "parts" / "1" / "log.raw", [Measured(S01), Measured(S02, 2000, 100)])
    (folder / "spec.json").write_text(json.dumps({"suite": "smoke", "cases": []}))
    (folder / "retractions.jsonl").write_text(json.dumps({"case_id": S02.id, "because": "a <cached> output"}))
    run = reading.read(str(folder))
    text, page = page_of(run)
    [group] = groups_of(lines_of([run]))
    assert group.geomean and round(group.geomean.ratio) == 2
    assert totals(group)["cases"] == "1 passed, 1 retracted"
    assert [datum["case"] for datum in page.specs["speed"]["data"]["values"]] == ["s01"]
    assert "retracted: a &lt;cached&gt; output" in text and len(page.rows) == 2


@pytest.mark.parametrize(
    ("candidate_us", "noise", "words"),
    [
        (2000.0, 0.002, "no difference from the baseline"),
        (1900.0, 0.5, "nobody can tell from the baseline"),
        (3000.0, 0.002, "0.66"),
    ],
)
def test_the_headline_claims_no_more_than_the_noise_allows(
    tmp_path: Path, candidate_us: float, noise: float, words: str
) -> None:
    """Equals are equal, noise is noise, and a slower one is told as it is."""
    run = reading_of(tmp_path / "log", Measured(S01, 2000.0, candidate_us, noise))
    assert headline(groups_of(lines_of([run]))).startswith(words)


def test_two_versions_of_one_sitting_have_a_verdict(tmp_path: Path) -> None:
    """What was timed against another version says which, by how much, and whether that is told."""
    flags = {"against": "v1", "vs_against": "1.2", "vs_against_low": "1.19", "vs_against_high": "1.21"}
    run = reading_of(
        tmp_path / "log", Measured(S01, flags={**flags, "vs_against_floor": "0.01", "aa": "1.001"})
    )
    told = totals(groups_of(lines_of([run]))[0])
    assert told["against"] == "v1: 1.200× (1.190–1.210), faster"
    assert told["itself"] == "the baseline as a candidate: 1.001–1.001×"


def test_a_mixed_folder_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """Another device, half a log, none, a corrupt spec, a foreign file: the rest is read, each is named."""
    ids = {name: f"20260102-030405-00000{number}" for number, name in enumerate(MIXED)}
    for name, run_id in ids.items():
        log = tmp_path / run_id / "parts" / "1" / "log.raw"
        device = H200 if name == "other" else CARD
        write_log(log, [Measured(S01), Measured(S02)], device, run=run_id)
        spec = json.dumps({"suite": "smoke", "cases": []})
        (tmp_path / run_id / "spec.json").write_bytes(b"\xff{" if name == "corrupt" else spec.encode())
        if name == "half":
            log.write_bytes(log.read_bytes()[:5000])
        if name == "foreign":
            log.write_bytes(b"\x7fELF" + bytes(200))
        if name == "empty":
            log.unlink()
    found, problems = reading.read_all([str(tmp_path)])
    assert {one.name: len(one.rows) for one in found} == {
        ids["good"]: 2,
        ids["other"]: 2,
        ids["half"]: 2,
        ids["foreign"]: 0,
    }
    assert [problem.partition(":")[0] for problem in problems] == [ids["corrupt"], ids["empty"]]
    text = report(found, problems)
    assert len(Page(text).rows) == 6
    assert all(problem.partition(":")[0] in text for problem in problems)


MIXED = ("good", "other", "half", "corrupt", "empty", "foreign")
