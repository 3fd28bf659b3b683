"""The report in a real browser, opened from disk: quiet, offline, and its table and pictures answer."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from builder.reading import Reading, read, read_all
from harness.events import Work
from harness.shapes import OFFICIAL, SHAPES, Case
from tests.browser.conftest import Open, Opened
from tests.command import run_ferry
from tests.unit.measured_logs import S01, S02, Measured, reading_of
from tests.unit.written_logs import BROKEN, CARD

PUBLISHED = Path(__file__).parents[2] / "runs" / "published"
ENDS = ("passed", "failed_gate", "error", "oom", "timeout", "disqualified", "infeasible", "not_run")
SEEN = {
    "clocks": "steady 1980>1965 MHz, 1935 to 1980",
    "worst_reference": "0.5",
    "worst_output": "0.5004",
}
WORK = (Work("fmha", 1, 500), Work("masked_fill", 2, 300), Work("<b>", 1, 200))
PHONE: dict[str, Any] = {"viewport": {"width": 375, "height": 740}, "is_mobile": True}
NAMES = ("<script>alert(1)</script>", "../../etc/passwd", "\x1b[31mred", "名前\"'&", "`|*_")


def many(folder: Path, count: int, passing: int) -> Reading:
    """A run of so many cases of every status, of which the first ones pass."""
    draw = random.Random(7)
    cases = []
    for number in range(count):
        case = Case(OFFICIAL[number % 13], f"route{number // 13}")
        if number < passing:
            cases.append(Measured(case, 2000, 2000 / draw.uniform(0.8, 6), 0.01, flags=SEEN))
        else:
            end = ENDS[1 + number % 7]
            cases.append(Measured(case, None, None, status=end, gate=BROKEN, error="<img src=x> failed"))
    return reading_of(folder / "many.log", *cases)


def official() -> Reading:
    """A published run of the contest's shapes on a GPU."""
    return read(str(PUBLISHED / "20261130-143908-d535ad"))


def hostile(folder: Path) -> Reading:
    """A run whose names and errors are markup, paths and terminal escapes."""
    cases = [Measured(Case(SHAPES["s01"], name), error=name, flags=SEEN) for name in NAMES]
    return reading_of(folder / "hostile.log", *cases, device=replace(CARD, name="</script><b>T4"))


def cut(folder: Path) -> Reading:
    """A run whose log breaks off, so that a planned case is unknown."""
    path = folder / "cut.log"
    reading_of(path, Measured(S01), Measured(S02))
    path.write_bytes(path.read_bytes()[:4000])
    found = read(str(path))
    assert "unknown" in {row.status for row in found.rows}
    return found


def zero(folder: Path) -> Reading:
    """A run in which nothing passed."""
    return reading_of(folder / "zero.log", Measured(S01, None, None, status="failed_gate", gate=BROKEN))


@pytest.mark.parametrize("settings", [{}, {"color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"])
@pytest.mark.parametrize("kind", ["official", "hostile", "zero", "one", "several", "published"])
def test_a_page_is_quiet_offline_and_fits(
    kind: str, settings: dict[str, Any], open_report: Open, tmp_path: Path
) -> None:
    """Nothing on the console, no request, every picture drawn, nothing wider than the window."""
    one = reading_of(tmp_path / "one.log", Measured(S01, flags=SEEN, work=WORK))
    runs = {
        "official": [official()],
        "hostile": [hostile(tmp_path)],
        "zero": [zero(tmp_path)],
        "one": [one],
        "published": read_all([str(PUBLISHED)])[0],
        "several": [official(), hostile(tmp_path), zero(tmp_path), one, cut(tmp_path)],
    }[kind]
    opened = open_report(*runs, problems=("a corrupt run: <b>not read</b>",), **settings)
    page = opened.page
    assert (opened.said, opened.asked) == ([], [])
    assert page.locator("[data-chart]").count() == page.locator("[data-chart] svg.marks").count()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("main b, main script, main img").count() == 0


def test_300_cases_are_painted_within_2_seconds(open_report: Open, tmp_path: Path) -> None:
    """The verdict stands there at once; the pictures follow."""
    opened = open_report(many(tmp_path, 300, 160))
    paint = opened.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint <= 2000
    assert opened.page.locator("#table tbody tr").count() == 300


def test_2000_cases_of_every_status_fit_and_open(open_report: Open, tmp_path: Path) -> None:
    """The page has at most 6 MB, every row, and a quiet console."""
    opened = open_report(many(tmp_path, 2000, 60))
    assert (tmp_path / "page.html").stat().st_size <= 6_000_000
    assert opened.page.locator("#table tbody tr").count() == 2000
    assert opened.said == []


def test_the_table_sorts_both_ways_and_keeps_blanks_last(open_report: Open, tmp_path: Path) -> None:
    """Figures sort as numbers, a click turns them around, rows without one stay at the end."""
    run = reading_of(
        tmp_path / "log",
        Measured(S01, 2000, 1000),
        Measured(S02, 2000, 180),
        Measured(replace(S01, shape=SHAPES["s03"]), None, None, status="error", gate=None),
    )
    page = open_report(run).page
    firsts = page.locator("#table tbody th")
    head = page.locator("#table thead th").nth(2)
    head.get_by_role("button").click()
    assert (head.get_attribute("aria-sort"), firsts.all_inner_texts()) == ("ascending", ["s01", "s02", "s03"])
    head.get_by_role("button").click()
    assert (head.get_attribute("aria-sort"), firsts.all_inner_texts()) == (
        "descending",
        ["s02", "s01", "s03"],
    )


def test_the_table_filters_by_words_status_and_figure(open_report: Open, tmp_path: Path) -> None:
    """Each filter leaves what fits, says how many, and can be taken back."""
    page = open_report(many(tmp_path, 40, 20)).page
    shown = page.locator("#table tbody tr:visible")
    page.locator("#filter").fill("ROUTE1 s02")
    assert shown.count() == 1
    page.get_by_role("button", name="Show all rows").click()
    page.locator("#status").select_option("oom")
    assert {row.get_attribute("data-status") for row in shown.all()} == {"oom"}
    page.get_by_role("button", name="Show all rows").click()
    page.locator("#speed").get_by_role("button").click()
    assert page.locator("#told").inner_text() == "20 of 40 rows"


def test_rows_are_copied_as_csv_and_markdown(open_report: Open, tmp_path: Path) -> None:
    """What is shown is copied, quoted or escaped, with its header."""
    page = open_report(hostile(tmp_path), permissions=["clipboard-read", "clipboard-write"]).page
    page.locator("#filter").fill("`|*_")
    page.get_by_role("button", name="Copy as CSV").click()
    page.wait_for_function("document.querySelector('#told').textContent === 'copied 1 rows'")
    header, row = page.evaluate("navigator.clipboard.readText()").strip().split("\n")
    assert header.startswith("case,status,speed-up") and row.startswith("s01 · `|*_,passed,")
    page.locator("#filter").fill("`|*_ ")
    page.get_by_role("button", name="Copy as Markdown").click()
    page.wait_for_function("document.querySelector('#told').textContent === 'copied 1 rows'")
    lines = page.evaluate("navigator.clipboard.readText()").strip().split("\n")
    assert len(lines) == 3 and "s01 · \\`\\|\\*\\_" in lines[2]


def test_a_mark_tells_under_the_pointer_and_leads_to_its_row(open_report: Open) -> None:
    """Hovering shows the figures; a click goes to the row, also when a filter had hidden it."""
    page = open_report(official()).page
    page.locator("#filter").fill("no such row")
    mark = page.locator("#speed .mark-symbol.role-mark path").nth(5)
    mark.hover()
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "s06" in tip.inner_text() and "2.016×" in tip.inner_text()
    mark.click()
    found = page.locator("tr.found")
    assert found.count() == 1 and found.is_visible()
    assert found.locator("th").inner_text().startswith("s06")


def test_one_case_is_shown_call_by_call(open_report: Open) -> None:
    """Another case's samples take the place of the first's, and the link leads to its row."""
    page = open_report(official()).page
    marks = page.locator("#calls .mark-symbol.role-mark path")
    before = marks.first.get_attribute("transform")
    page.locator("#case").select_option(index=6)
    first = "document.querySelector('#calls .mark-symbol.role-mark path')"
    page.wait_for_function(f"{first}.getAttribute('transform') !== '{before}'")
    assert marks.count() == 600
    assert page.locator("#case-row").get_attribute("href") == "#row-7"


LABELS = "nodes => nodes.map((node) => node.getAttribute('aria-label') ?? '')"
NAMELESS = """[...document.querySelectorAll(
        'button, input, select, a, [role=graphics-document], [role=region]')]
    .filter((node) => !node.getAttribute('aria-label') && !node.getAttribute('aria-labelledby'))
    .filter((node) => !node.labels?.length && !(node.matches('a, button') && node.textContent.trim()))
    .map((node) => node.outerHTML.slice(0, 80))"""
CUT = """[...document.querySelectorAll('.canvas, .scroll')]
    .filter((node) => getComputedStyle(node).overflowY !== 'visible').length"""


def contrast(page: Any, a: str, b: str) -> float:
    """The contrast of two of the page's colours, as WCAG 2 defines it."""
    script = """([a, b]) => {
        const light = (name) => {
            const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
            const parts = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16) / 255);
            const [r, g, bl] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * bl;
        };
        const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
        return (high + 0.05) / (low + 0.05);
    }"""
    return float(page.evaluate(script, [a, b]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast_and_follow_the_reader(scheme: str, open_report: Open, tmp_path: Path) -> None:
    """Texts have 4.5 to 1, marks 3 to 1, under the system's choice and after the button."""
    page = open_report(zero(tmp_path), color_scheme=scheme).page
    for _ in range(2):
        for name in ("--ink", "--muted", "--accent", "--good", "--bad", "--same", "--unsure"):
            assert min(contrast(page, name, paper) for paper in ("--paper", "--sheet")) >= 4.5, name
        for name in ("--baseline", *(f"--hue{number}" for number in range(1, 9))):
            assert contrast(page, name, "--paper") >= 3, name
        page.locator("#theme").click()
    assert page.locator("html").get_attribute("data-theme") == scheme


def test_everything_has_a_name_for_those_who_listen(open_report: Open, tmp_path: Path) -> None:
    """Each control, picture and scrolling part has an accessible name, and the page one main heading."""
    page = open_report(many(tmp_path, 80, 80)).page
    nameless = page.evaluate(NAMELESS)
    assert nameless == []
    assert page.get_by_role("heading", level=1).count() == 1
    described = page.locator("[role=graphics-document]")
    assert described.count() == page.locator("svg.marks").count()
    assert all(": " in label or ". " in label or "call" in label for label in described.evaluate_all(LABELS))


def test_paper_is_light_and_whole(open_report: Open, tmp_path: Path) -> None:
    """In print a dark page is light, has no controls, and cuts no table or picture off."""
    page = open_report(many(tmp_path, 80, 80), color_scheme="dark").page
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible() and not page.locator("#theme").is_visible()
    assert page.evaluate(CUT) == 0
    assert page.pdf().startswith(b"%PDF")


def test_the_command_writes_a_page_that_opens(browser: Browser, tmp_path: Path) -> None:
    """`ferry report RUN` bundles the installed library into a page of at most 6 MB that draws itself."""
    target = tmp_path / "report of a run.html"
    done = run_ferry("report", str(PUBLISHED / "20261130-134228-5a8555"), "-o", str(target), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == [str(target)]
    assert target.stat().st_size <= 6_000_000
    page = browser.new_page()
    page.goto(target.as_uri())
    Opened(page).wait_until_drawn()
    assert page.locator("#speed svg.marks").count() == 1
    page.close()
