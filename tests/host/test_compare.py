"""Two runs side by side: what is paired, what is refused, what is a difference, what the exit code says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import click
import pytest

from builder.cli import ferry
from builder.compare import Compared, compare
from builder.errors import Exit
from builder.reading import read
from builder.reports import comparison
from builder.stats import Word
from harness.shapes import SHAPES, Case
from tests.command import ROOT, run_ferry
from tests.unit.measured_logs import S01, S02, Measured, reading_of, write_log
from tests.unit.written_logs import CARD, GATE

PUBLISHED = Path(__file__).parents[2] / "runs" / "published"
SAME_CODE = ("20261130-132623-666a74", "20261130-143908-d535ad")
H200 = replace(CARD, name="NVIDIA H200")


def sides(folder: Path, a: Measured, b: Measured, *across: str) -> Compared:
    """Two runs of one case each, compared."""
    return compare(reading_of(folder / "a.log", a), reading_of(folder / "b.log", b), across)


@pytest.mark.parametrize(
    ("candidate_us", "word", "code"),
    [
        (800.0, Word.FASTER, Exit.OK),
        (1000.0, Word.SAME, Exit.OK),
        (1200.0, Word.SLOWER, Exit.CASE_FAILED),
    ],
)
def test_a_change_beyond_the_noise_has_a_verdict(
    tmp_path: Path, candidate_us: float, word: Word, code: Exit
) -> None:
    """With an unmoved baseline and 0.2 % of noise, 20 % is a difference and none is none."""
    compared = sides(tmp_path, Measured(S01), Measured(S01, candidate_us=candidate_us))
    [pair] = compared.pairs
    assert pair.found and pair.found.word is word
    assert compared.geomean and compared.geomean.word is word
    assert compared.exit_code(0.0) is code


def test_noise_hides_what_is_smaller_than_itself(tmp_path: Path) -> None:
    """5 % within samples that stray by 40 % cannot be told, unless so much is allowed."""
    compared = sides(tmp_path, Measured(S01, noise=0.4), Measured(S01, candidate_us=1050.0, noise=0.4))
    assert compared.exit_code(0.0) is Exit.CANNOT_TELL
    assert compared.exit_code(0.9) is Exit.OK


def test_a_threshold_allows_what_is_told_to_be_smaller(tmp_path: Path) -> None:
    """A told slow-down of 8 % is allowed by 10 % and not by 5 %."""
    compared = sides(tmp_path, Measured(S01), Measured(S01, candidate_us=1080.0))
    assert (compared.exit_code(0.05), compared.exit_code(0.10)) == (Exit.CASE_FAILED, Exit.OK)


def test_what_two_processes_alone_may_make_is_no_difference(tmp_path: Path) -> None:
    """4 % between sharp samples of two runs cannot be told; an allowed slow-down of 10 % is not exceeded."""
    compared = sides(tmp_path, Measured(S01), Measured(S01, candidate_us=1040.0))
    assert compared.pairs[0].found and compared.pairs[0].found.word is Word.UNTOLD
    assert (compared.exit_code(0.0), compared.exit_code(0.10)) == (Exit.CANNOT_TELL, Exit.OK)


def test_two_sessions_of_the_same_code_on_a_gpu_are_never_called_different() -> None:
    """Two published runs of one route, hours apart on an H200: no case is faster or slower."""
    first, second = (read(str(PUBLISHED / name)) for name in SAME_CODE)
    compared = compare(first, second, ["harness"])
    assert len(compared.told) == 13
    assert {pair.found.word for pair in compared.pairs if pair.found} == {Word.SAME, Word.UNTOLD}
    assert compared.geomean and compared.geomean.word is Word.UNTOLD


def test_what_moved_the_baseline_too_is_the_machine(tmp_path: Path) -> None:
    """Where both sides became half as fast nothing is told; where only the candidate did, it is slower."""
    slower = Measured(S01, baseline_us=4000.0, candidate_us=2000.0)
    both = sides(tmp_path / "both", Measured(S01), slower)
    alone = sides(tmp_path / "alone", Measured(S01), replace(slower, baseline_us=2000.0))
    against = sides(tmp_path / "against", Measured(S01), replace(slower, baseline_us=1000.0))
    words = [compared.pairs[0].found for compared in (both, alone, against)]
    assert [found and found.word for found in words] == [Word.UNTOLD, Word.SLOWER, Word.SLOWER]


def test_a_change_of_speed_up_is_split_into_milliseconds(tmp_path: Path) -> None:
    """The baseline's part and the candidate's part stand beside the two speed-ups."""
    [pair] = sides(tmp_path, Measured(S01), Measured(S01, baseline_us=1500.0, candidate_us=900.0)).pairs
    assert pair.moved_ms == pytest.approx((-0.5, -0.1), abs=0.01)
    assert comparison.cells(pair)[-2:] == ("2× → 1.67×", "-0.5 ms, -0.1 ms")


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("dtype", replace(S01, dtype="float16")),
        ("protocol", replace(S01, protocol="short")),
        ("route", replace(S01, route="compiled")),
        ("levers", replace(S01, levers={"LEVER_QKV": "separate"})),
        ("settings", replace(S01, harness_args=("--no-allow-tf32",))),
    ],
)
def test_cases_that_differ_are_compared_only_when_told(tmp_path: Path, kind: str, other: Case) -> None:
    """Such a pair is refused with the reason and exit 8; with --across it has a verdict."""
    refused = sides(tmp_path, Measured(S01), Measured(other))
    assert refused.pairs[0].found is None
    assert refused.pairs[0].refusal.startswith(f"{kind}: ")
    assert refused.exit_code(0.0) is Exit.CANNOT_TELL
    assert f"--across {kind}" in "\n".join(comparison.sentences(refused, 0.0))
    assert sides(tmp_path, Measured(S01), Measured(other), kind).pairs[0].found


def test_other_harness_is_refused_unless_told(tmp_path: Path) -> None:
    """The same case under another harness is another measurement."""
    a = reading_of(tmp_path / "a.log", Measured(S01))
    b = reading_of(tmp_path / "b.log", Measured(S01), harness="another")
    assert compare(a, b).pairs[0].refusal == "harness: harness ≠ another"
    assert compare(a, b, ["harness"]).pairs[0].found


def test_across_devices_both_are_shown_and_nothing_is_told(tmp_path: Path) -> None:
    """A T4 and an H200 have no ratio, asked for or not, and no part in a geomean."""
    a = reading_of(tmp_path / "a.log", Measured(S01))
    b = reading_of(tmp_path / "b.log", Measured(S01, candidate_us=100.0), device=H200)
    shown = compare(a, b, ["device"])
    assert compare(a, b).pairs[0].refusal == "device: Tesla T4 ≠ NVIDIA H200"
    assert shown.geomean is None and shown.exit_code(0.0) is Exit.CANNOT_TELL
    told = comparison.cells(shown.pairs[0])
    assert [float(ms) for ms in told[3:5]] == pytest.approx([1.0, 0.1], rel=0.01)
    assert told[5:9] == ("", "", "", "other device, no verdict")


def test_simulated_rows_are_refused_whatever_is_asked(tmp_path: Path) -> None:
    """A made-up card measures nothing."""
    card = replace(CARD, name="simulated Tesla T4")
    run = reading_of(tmp_path / "a.log", Measured(S01), device=card)
    assert "simulated" in compare(run, run, ["device"]).pairs[0].refusal


def test_a_case_that_no_longer_passes_is_a_regression(tmp_path: Path) -> None:
    """Passed, then failed at the gate: exit 3, although there is no second time to compare."""
    failed = Measured(S01, None, None, status="failed_gate")
    compared = sides(tmp_path, Measured(S01), failed)
    assert compared.exit_code(0.5) is Exit.CASE_FAILED
    assert comparison.verdict(compared.pairs[0]) == "passed → failed_gate"


def test_a_case_that_is_gone_cannot_be_told(tmp_path: Path) -> None:
    """What only the first run measured is named, and is no success; what only the second did is named."""
    a = reading_of(tmp_path / "a.log", Measured(S01), Measured(S02))
    b = reading_of(tmp_path / "b.log", Measured(S01))
    assert compare(a, b).exit_code(0.0) is Exit.CANNOT_TELL
    assert compare(b, a).exit_code(0.0) is Exit.OK
    assert f"only in B: {S02.id}" in [*comparison.sentences(compare(b, a), 0.0)]


def test_a_geomean_has_an_interval_from_the_samples(tmp_path: Path) -> None:
    """Two cases, one twice as fast and one the same: about 1.414 with an interval around it."""
    a = reading_of(tmp_path / "a.log", Measured(S01, noise=0.02), Measured(S02, noise=0.02))
    b = reading_of(tmp_path / "b.log", Measured(S01, 2000, 500, 0.02), Measured(S02, noise=0.02))
    mean = compare(a, b).geomean
    assert mean and mean.low < mean.ratio < mean.high
    assert mean.ratio == pytest.approx(2**0.5, rel=0.01)


def test_an_ambiguous_partner_is_none(tmp_path: Path) -> None:
    """Where two routes of the second run are as near, neither is taken."""
    a = reading_of(tmp_path / "a.log", Measured(S01))
    others = [Measured(replace(S01, route=route)) for route in ("eager", "compiled")]
    compared = compare(a, reading_of(tmp_path / "b.log", *others))
    assert (len(compared.pairs), len(compared.only_a), len(compared.only_b)) == (0, 1, 2)


def test_markdown_is_a_table_that_hostile_names_cannot_break(tmp_path: Path) -> None:
    """A route named like markup, or a device with a terminal escape, stays text in its own cell."""
    hostile = Case(SHAPES["s01"], "a|b<script>`x`\x1b[31m@all")
    card = replace(CARD, name="T4\n| evil | [x](http://y)")
    run = reading_of(tmp_path / "a.log", Measured(hostile), device=card)
    text = comparison.markdown(compare(run, run), 0.0)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(comparison.HEAD) + 1}
    assert not re.search(r"(?<!\\)[<`\[]", text)
    assert "\x1b" not in text and "@all" not in text


def test_no_time_no_gate_no_nan_breaks_a_comparison(tmp_path: Path) -> None:
    """Pairs of every status are shown, and only what passed twice is compared."""
    nan = replace(GATE, max_abs=float("nan"), gate_share=float("nan"))
    statuses = ("failed_gate", "error", "oom", "timeout", "disqualified", "infeasible", "not_run")
    routes = [
        Measured(replace(S01, route=status), None, None, status=status, gate=nan) for status in statuses
    ]
    run = reading_of(tmp_path / "a.log", Measured(S01), *routes)
    compared = compare(run, run)
    assert comparison.counts(compared) == {"same": 1, "no verdict": len(statuses)}
    assert compared.exit_code(0.0) is Exit.OK


def test_the_command_prints_one_document_for_programs(tmp_path: Path) -> None:
    """`ferry compare A B --json` names each pair's verdict and figures, and exits with its code."""
    a = write_log(tmp_path / "a.log", [Measured(S01)])
    b = write_log(tmp_path / "b" / "log.raw", [Measured(S01, candidate_us=1200.0)])
    done = run_ferry("compare", str(a), str(b.parent), "--json")
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == Exit.CASE_FAILED
    [pair] = document["pairs"]
    assert pair["verdict"] == "slower"
    assert pair["candidate_moved_ms"] == pytest.approx(0.2, abs=0.01)
    assert document["geomean"]["word"] == "slower"


@pytest.mark.parametrize("word", ["nothing", "empty", "text.log", "mixed"])
def test_what_is_no_run_is_refused_in_a_sentence(tmp_path: Path, word: str) -> None:
    """An unknown id, an empty folder, a text, and a folder of several runs are usage errors with a hint."""
    good = write_log(tmp_path / "a.log", [Measured(S01)])
    (tmp_path / "empty").mkdir()
    write_log(tmp_path / "mixed" / "a.log", [Measured(S01)])
    write_log(tmp_path / "mixed" / "b.log", [Measured(S01)], run="20260102-030405-fedcba")
    (tmp_path / "text.log").write_text("no events here\n")
    done = run_ferry("compare", str(good), word, cwd=tmp_path)
    assert done.returncode == Exit.USAGE
    assert "hint: " in done.stderr and "Traceback" not in done.stderr


def test_the_ready_workflow_says_only_what_ferry_knows() -> None:
    """Each command, option and variable in the workflow exists, and it is no part of the project's own CI."""
    text = (ROOT / "templates" / "workflows" / "benchmark.yml").read_text(encoding="utf-8")
    context = click.Context(ferry)
    for name, rest in re.findall(r"^\s*ferry (\w+)([^>\n]*)", text, re.MULTILINE):
        command = ferry.get_command(context, name)
        assert command
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known
    run = ferry.get_command(context, "run")
    assert run
    names = {f"FERRY_{max(one.opts, key=len).lstrip('-').upper()}" for one in run.params}
    assert set(re.findall(r"^  (FERRY_\w+):", text, re.MULTILINE)) <= names


def test_a_run_is_held_against_the_model_of_its_card() -> None:
    """A published run beside its estimates: every row, each side's geomean and worst, as JSON too."""
    done = run_ferry("compare", "--estimate", str(PUBLISHED / SAME_CODE[0]), "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and len(told["pairs"]) == 26
    assert {one["side"]: 1.0 < one["geomean"] < 1.2 for one in told["wrong"]} == {
        "baseline": True,
        "sdpa": True,
    }
    for words in ((*SAME_CODE, "--estimate"), (SAME_CODE[0],)):
        assert run_ferry("compare", *words).returncode == Exit.USAGE
