"""Every figure of a document comes from a run, and a document that says otherwise is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from builder import quoting
from builder.errors import UsageError
from builder.marks import parse
from builder.runs import Run
from tests.command import ROOT, run_ferry
from tests.host.test_publishing import resealed

RUN = "20261130-143908-d535ad"
SHORT = "20261130-1439"
SOUND = f"""\
# 2 rows, 14 shapes

On an H200 `sdpa` is **2.25×**<!-- = {SHORT} geomean(speedup) --> as fast as the baseline in float32, from
1.35–3.33×<!-- = {SHORT} min(speedup)–max(speedup) .2f -->, so ~2.2x <!-- = {SHORT} geomean(speedup)
route=sdpa device=H200 --> and 5.91 ms<!-- = {SHORT}/s13 median_ms --> for shape 13. Its gate is used up to
59 %<!-- = {SHORT} max(gate_share) -->. The wish is 3×<!-- = not measured: a wish -->. On 2026-11-30 with
torch 2.11.0, a T4 ×2 and 64 × 128 elements, at most 5 % of them: `9.99×` in code is none, nor is <!-- 7× -->

<!-- settings: 5 %, 3.5× -->
`sdpa` counts 3.5× at most, over 13<!-- = {SHORT} count(speedup) --> of 15 rows. Shape 13 in `compiled`
takes 0.91×<!-- = 20261130-134230/s13 median_ms ÷ {SHORT}/s13 median_ms --> the time of `sdpa`,
that is 9 percent<!-- = 1 - 20261130-134230/s13 median_ms ÷ {SHORT}/s13 median_ms --> less, or
0.52 ms<!-- = {SHORT}/s13 median_ms - 20261130-134230/s13 median_ms -->. Of its own baseline `sdpa` takes
30 %<!-- = {SHORT}/s13 median_ms ÷ baseline_median_ms -->; both 2.06–2.25×<!-- = 20261130-132633
geomean(speedup) to {SHORT} geomean(speedup) -->. A first call of 0.31 s<!-- = {SHORT}/s01 first_call_s -->,
64 MiB<!-- = {SHORT}/s01 peak_mem_mib -->, 4,722,640 tokens/s<!-- = {SHORT}/s01 tokens_per_s -->, and a bench
of 1.01 times<!-- = bench/neighbour.json figures.1.value --> or 1.12×<!-- = bench/neighbour.json
mean(figures.1.samples.beside.2:4) -->.

| shape | time |
|---|--:|
| 13, fp16 | 3 ms<!-- = not measured: an example --> |
| 13, fp32 | 5.908 ms<!-- = {SHORT}/s13 median_ms dtype=float32 --> |

```
echo 8.88×
```
<!-- begin: run x -->
2.523×
<!-- end -->
"""
# What is wrong in a document of one paragraph, and what must be said of it.
GOLDEN = {
    "a stale headline": (
        f"**2.31×**<!-- = {RUN} geomean(speedup) -->",
        "2.31×: it is stale: 20261130-143908-d535ad geomean(speedup) gives 2.25×; `ferry docs` writes it",
    ),
    "a stale range": (
        f"1.2–3.33×<!-- = {SHORT} min(speedup)–max(speedup) .2f -->",
        f"1.2–3.33×: it is stale: {SHORT} min(speedup)–max(speedup) .2f gives 1.35–3.33×; `ferry docs` ",
    ),
    "a figure that no run hit": ("It is 77.7× as fast.", "77.7×: no run gives this; nearest 3."),
    "an unmarked figure": (
        "It is 2.249× as fast.",
        f"2.249×: it has no marker; this fits: <!-- = {RUN} geomean(speedup) -->",
    ),
    "a total of float32 told as fp16, beside a row in float16 that has no time": (
        f"In fp16 it is 2.25×<!-- = {RUN} geomean(speedup) -->.",
        "2.25×: the text says float16; its dtype is float32",
    ),
    "a run in float32 told as fp16": (
        f"In fp16 it takes 5.91 ms<!-- = {RUN}/s13 median_ms -->.",
        "5.91 ms: the text says float16; its dtype is float32",
    ),
    "hardware that the run did not have": (
        f"It is 3.33×<!-- = {RUN}/s13 speedup --> as fast on\na T4.",
        "3.33×: the text says T4; its device is NVIDIA H200",
    ),
    "another route": (
        f"`compiled` takes 5.91 ms<!-- = {RUN}/s13 median_ms -->.",
        "5.91 ms: the text says compiled; its route is sdpa",
    ),
    "another protocol": (
        f"Under `strict` it takes 5.91 ms<!-- = {RUN}/s13 median_ms -->.",
        "5.91 ms: the text says strict; its protocol is official",
    ),
    "a run that never was": ("2×<!-- = 20260101-000000 geomean(speedup) -->", "2×: no run in "),
    "a filter that nothing fits": (
        f"2×<!-- = {RUN} max(speedup) dtype=bfloat16 -->",
        f"2×: run {RUN} has no row for dtype=bfloat16",
    ),
    "a column for several rows": (f"2×<!-- = {RUN} speedup -->", "2×: 13 rows fit"),
    "a case without figures": (f"2×<!-- = {RUN}/s14 max(speedup) -->", "2×: no row of"),
    "another unit": (
        f"2×<!-- = {RUN}/s13 median_ms -->",
        "2×: median_ms is told in ms, not in ×",
    ),
    "a range of one value": (f"2–3×<!-- = {RUN}/s13 speedup -->", "2–3×: the marker has 1 values"),
    "no column": (f"2×<!-- = {RUN} max(speed) -->", "2×: 'max(speed)' is no column of results.csv"),
    "no formula": (f"2×<!-- = {RUN} sum(speedup) -->", "2×: sum is none of geomean, median"),
    "a share without a marker": (
        "It fails in 7 % of all cases.",
        "7 %: it has no marker; where nobody measured it: <!-- settings: 7 % -->",
    ),
    "a ratio of ms and ×": (f"2×<!-- = {RUN}/s13 median_ms ÷ speedup -->", "2×: ms ÷ × is no ratio"),
    "a difference of ms and ×": (
        f"2×<!-- = {RUN}/s13 median_ms - speedup -->",
        "2×: a ratio and ms do not make",
    ),
    "a stale ratio": (
        f"0.5×<!-- = {RUN}/s13 median_ms ÷ baseline_median_ms -->",
        f"0.5×: it is stale: {RUN}/s13 median_ms ÷ baseline_median_ms gives 0.3×",
    ),
    "three ends": (f"2×<!-- = {RUN} min(speedup) to 1 to 2 -->", "2×: '"),
    "a file that is not there": ("2×<!-- = bench/none.json a -->", "2×: bench/none.json has no a: "),
    "no number": (f"2×<!-- = {RUN}/s13 status ÷ 2 -->", "2×: "),
    "a device named in the sentence before": (
        f"This is a T4. It is 3.33×<!-- = {RUN}/s13 speedup --> as fast.",
        "3.33×: the text says T4; its device is NVIDIA H200",
    ),
    "a device named in the heading": (
        f"## On a T4\nIt is 3.33×<!-- = {RUN}/s13 speedup --> as fast.",
        "3.33×: the text says T4; its device is NVIDIA H200",
    ),
    "a dtype in a table's head": (
        f"| shape | fp16 | fp32 |\n|---|---|---|\n| 13 | 5.91 ms<!-- = {RUN}/s13 median_ms --> | |",
        "5.91 ms: the text says float16; its dtype is float32",
    ),
    "no reason": ("2×<!-- = not measured: -->", "2×: 'measured:' is no column"),
    "a marker without a figure": (f"fast<!-- = {RUN} speedup -->", "there is no figure before this marker"),
}


@pytest.fixture(autouse=True)
def committed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The committed runs are the ones there are."""
    monkeypatch.setenv("FERRY_RUNS", str(ROOT / "runs"))


def test_a_sound_document_passes() -> None:
    """Units, rounding, ranges, tables and filters hold; dates, versions, products and code are no figures."""
    assert list(quoting.misses(SOUND)) == []
    assert quoting.regenerated(SOUND) == (SOUND, [])


@pytest.mark.parametrize(("document", "said"), GOLDEN.values(), ids=GOLDEN)
def test_a_wrong_figure_is_found_with_its_line(document: str, said: str) -> None:
    """Each golden document has one fault, and nothing else is found in it."""
    (found,) = quoting.misses(f"# Title\n\n{document}\n")
    assert found.line == 3 + document.partition("<!--")[0].count("\n")
    assert found.sentence.startswith(said), found.sentence


def test_docs_writes_stale_figures_and_leaves_every_other_byte(tmp_path: Path) -> None:
    """Digits stay as many as they were, a marker that leads nowhere is told, and then nothing is left."""
    text = (
        f"ü 9.9× and 1,000–2.00×<!-- = {RUN} min(speedup)–max(speedup) -->\r\n"
        f"**9.999×**<!-- = {RUN} geomean(speedup) --> 1 ms<!-- = {RUN}/s13 median_ms .1f -->\r\n"
        "5×<!-- = 20260101 speedup -->"
    )
    (tmp_path / "a.md").write_bytes(text.encode())
    done = run_ferry("docs", "a.md", cwd=tmp_path)
    assert done.returncode == 3
    assert "a.md:3: 5×: no run in" in done.stderr
    made = text.replace("1,000–2.00", "1–3.33").replace("9.999", "2.249").replace(" 1 ms", " 5.9 ms")
    assert (tmp_path / "a.md").read_bytes().decode() == made
    assert "nothing to write" in run_ferry("docs", "a.md", cwd=tmp_path).stderr


def test_audit_and_show_speak_of_a_line(tmp_path: Path) -> None:
    """A stale figure is exit 3, and a figure's line leads to its raw samples."""
    (tmp_path / "a.md").write_text(f"\nIt takes 6.91 ms<!-- = {RUN}/s13 median_ms -->.\n")
    done = run_ferry("audit", "a.md", "--json", cwd=tmp_path)
    assert done.returncode == 3
    assert json.loads(done.stdout)["found"][0].startswith("a.md:2: 6.91 ms: it is stale")
    shown = run_ferry("show", "a.md:2", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert f"6.91 ms = {RUN}/s13 median_ms" in shown.stderr
    assert "log.raw:115  baseline round 0" in shown.stderr
    told = json.loads(run_ferry("show", "a.md:2", "--json", cwd=tmp_path).stdout)["figures"]
    assert [figure["rows"] for figure in told] == [["s13-sdpa-float32-official-cf1cbb"]]
    assert "has a marker" in run_ferry("show", "a.md:1", cwd=tmp_path).stderr


def test_retracted_and_simulated_figures_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case, a whole run, and a device that was made up; a total leaves a retracted case out."""
    folder = Path(shutil.copytree(ROOT / "runs" / "published" / RUN, tmp_path / RUN))
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    case = '{"case_id": "s13-sdpa-float32-official-cf1cbb", "because": "noise"}\n'
    (folder / "retractions.jsonl").write_text(case)
    (found,) = quoting.misses(f"5.91 ms<!-- = {RUN}/s13 median_ms -->")
    assert found.sentence.endswith(f"s13-sdpa-float32-official-cf1cbb of run {RUN} was retracted: noise")
    (found,) = quoting.misses(f"3.33×<!-- = {RUN} max(speedup) -->")
    assert "gives 2.52×" in found.sentence
    (folder / "retractions.jsonl").write_text('{"case_id": "", "because": "wrong card"}\n')
    (found,) = quoting.misses(f"2.52×<!-- = {RUN} max(speedup) -->")
    assert found.sentence == f"2.52×: run {RUN} was retracted: wrong card"
    simulated = Path(shutil.copytree(ROOT / "runs" / "published" / RUN, tmp_path / "other" / RUN))
    for log in Run(simulated).logs():
        log.write_text(resealed(log.read_text("utf-8")), "utf-8")
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "other"))
    (found,) = quoting.misses(f"3.33×<!-- = {RUN} max(speedup) -->")
    assert "simulated device" in found.sentence


def test_what_is_no_marker_is_refused_with_what_one_is() -> None:
    """The error's hint shows one."""
    for text in ("", RUN, f"{RUN} speedup x", f"{RUN} speedup nothing=1", f"{RUN} min(ms–max(ms)"):
        with pytest.raises(UsageError) as refused:
            parse(text)
        assert "20261130-143908/s13 speedup" in refused.value.hint
