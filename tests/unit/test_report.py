"""The page of a report without a browser: its totals, its pictures, and that texts stay texts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from builder import reading
from builder.reading import Reading
from builder.reports.charts import charts_of
from builder.reports.html import alone, headline, report, totals
from builder.reports.lines import groups_of, lines_of
from builder.reports.stages import REST, stages_of
from harness.events import STATUSES, Profile, Work
from harness.shapes import SHAPES, Case
from tests.unit.measured_logs import S01, S02, Measured, reading_of, write_log
from tests.unit.written_logs import BROKEN, CARD, GATE, RUN

H200 = replace(CARD, name="NVIDIA H200")
ODD = replace(CARD, name="Radeon Pro")
HOSTILE = ("<script>alert(1)</script>", "../../etc/passwd", "\x1b[31mred\x1b[0m", "名前\"'&", "{{ 7 * 7 }}")


class Page(HTMLParser):
    """What a browser would see: the tags, the rows of the table of rows, and the JSON in the scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[str] = []
        self.feed(text)
        self.specs: dict[str, Any] = json.loads(_script(text, "SPECS"), parse_constant=_no_constant)
        self.samples: dict[str, Any] = json.loads(_script(text, "SAMPLES"), parse_constant=_no_constant)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        found = dict(attrs)
        if tag == "tr" and (found.get("id") or "").startswith("row-"):
            self.rows.append(str(found["id"]))


def _script(text: str, name: str) -> str:
    found = re.search(rf"^const {name} = (.*);$", text, re.MULTILINE)
    assert found
    return found[1]


def _no_constant(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def page_of(*readings: Reading) -> tuple[str, Page]:
    """The page's text, and what is in it."""
    text = report(readings)
    return text, Page(text)


def charts(*readings: Reading) -> dict[str, Any]:
    """The pictures of these runs by name."""
    return {chart.name: chart for chart in charts_of(lines_of(readings))}


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


def test_a_device_of_unknown_peaks_has_no_floor(tmp_path: Path) -> None:
    """The page says so, and draws none; a known one has all three classes and what was measured."""
    odd = reading_of(tmp_path / "odd", Measured(S01), device=ODD)
    known = charts(reading_of(tmp_path / "known", Measured(S01)))
    assert "floor" not in charts(odd)
    assert "No floor is known for Radeon Pro." in page_of(odd)[0]
    assert len(known["floor"].spec["data"]["values"]) == 5


def test_both_branches_of_the_rule_are_drawn(tmp_path: Path) -> None:
    """The absolute tolerance is level, the relative one rises, and they meet where they are equal."""
    flags = {"worst_reference": "0.5", "worst_output": "0.504"}
    spec = charts(reading_of(tmp_path / "log", Measured(S01, flags=flags)))["worst"].spec
    lines = spec["layer"][0]["data"]["values"]
    assert {point["absolute"] for point in lines} == {GATE.atol}
    assert any(point["relative"] == pytest.approx(GATE.atol) for point in lines)
    assert spec["data"]["values"][0]["e"] == pytest.approx(0.004)


def test_ablation_needs_two_ways_of_one_size(tmp_path: Path) -> None:
    """Two routes on one shape are an ablation; two shapes on one route are none."""
    routes = [Measured(S01), Measured(replace(S01, route="eager"))]
    assert "ablation" in charts(reading_of(tmp_path / "a", *routes))
    assert "ablation" not in charts(reading_of(tmp_path / "b", Measured(S01), Measured(S02)))


def test_stages_add_up_and_say_what_they_could_buy() -> None:
    """Half of the work in products could buy 2 times at most; what no kernel accounts for is the rest."""
    works = (Work("sm90_gemm_f16", 4, 500), Work("flash_fwd", 2, 300), Work("odd name", 1, 100))
    found = {stage.name: stage for stage in stages_of(Profile("case", "candidate", 1, 1000, works))}
    assert sum(stage.share for stage in found.values()) == pytest.approx(1)
    assert (found["products"].most, found["attention"].share) == (2.0, 0.3)
    assert found[REST].share == pytest.approx(0.2)


def test_clocks_are_drawn_where_the_card_was_seen(tmp_path: Path) -> None:
    """A reading of the clocks is a mark; one that was not seen is none."""
    seen = {"clocks": "moved 1980>1755 MHz, 1700 to 1980", "throttle": "sw_power_cap 3/4"}
    run = reading_of(tmp_path / "a", Measured(S01, flags=seen), Measured(S02, flags={"clocks": "unseen"}))
    [datum] = charts(run)["clocks"].spec["data"]["values"]
    assert (datum["low"], datum["last"], datum["clock"]) == (1700, 1755, "moved")
    assert "sw_power_cap 3/4" in page_of(run)[0]


def test_a_long_picture_is_cut_and_says_so(tmp_path: Path) -> None:
    """Of 400 cases 300 are drawn, all are in the table, and samples that have no room are left out."""
    cases = [Measured(replace(S01, route=f"r{number}"), None, 1000.0) for number in range(400)]
    run = reading_of(tmp_path / "log", *cases)
    text, page = page_of(run)
    assert len(page.rows) == 400
    assert len(page.specs["memory"]["data"]["values"]) == 300
    assert "The first 300 of 400; the table has all." in text


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
