"""What a document claims in words is a condition on rows, and fails when they do not fulfil it."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import predicates
from tests.command import ROOT, run_ferry

RUN = "20261130-143908-d535ad"


@pytest.fixture(autouse=True)
def committed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The committed runs are the ones there are."""
    monkeypatch.setenv("FERRY_RUNS", str(ROOT / "runs"))


@pytest.mark.parametrize(
    "claim",
    [
        f"{RUN}/s08 speedup>1.3",
        f"{RUN} max(gate_share)<1",
        f"{RUN} speedup>1 status=passed",
        f"{RUN}/s14 status=infeasible dtype=float16",
        f"{RUN} tf32=on status=passed",
        f"{RUN} min(speedup)>=1.35084 route=sdpa",
    ],
)
def test_a_claim_that_holds_passes(claim: str) -> None:
    """Also one that goes on over a line's end, and none is looked for in code."""
    broken = claim.replace(" ", "\n", 1)
    assert list(predicates.misses(f"It is so.<!-- holds: {broken} -->\n\n`<!-- holds: nothing -->`\n")) == []


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (f"{RUN}/s08 speedup<1", "s08-sdpa-float32-official-cf1cbb has 1.35084"),
        (f"{RUN}/s13 status=failed_gate", "s13-sdpa-float32-official-cf1cbb has passed"),
        (f"{RUN} max(speedup)<3", f"{RUN} max(speedup) has 3.32799"),
        (f"{RUN} speedup>1", "s14-sdpa-float32-official-cf1cbb has no value"),
        (f"{RUN}/s14 max(speedup)>1", "has no value"),
        (f"{RUN} status<1", "'passed' and '1' are not two numbers"),
        (f"{RUN} status", "it has no condition"),
        (f"{RUN} speed=1", "'speed' is no column"),
        ("20260101-000000 status=passed", "no run in"),
        (f"{RUN} status=passed dtype=bfloat16", "has no row for"),
    ],
)
def test_a_claim_that_does_not_hold_is_named_with_its_line(claim: str, said: str) -> None:
    """The sentence names the row that is otherwise, or what is wrong with the claim."""
    (found,) = predicates.misses(f"# Title\n\nIt is so.<!-- holds: {claim} -->\n")
    assert found.line == 3
    assert said in found.sentence, found.sentence


def test_audit_looks_at_claims(tmp_path: Path) -> None:
    """A false claim is exit 3."""
    (tmp_path / "a.md").write_text(f"It fails the gate.<!-- holds: {RUN}/s13 status=failed_gate -->\n")
    done = run_ferry("audit", "a.md", cwd=tmp_path)
    assert done.returncode == 3
    assert "a.md:1: the claim" in done.stderr


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("On short sequences `compiled` hurts.", "'hurts' is said of compiled without a marker"),
        ("Nothing else helps. `LEVER_QKV=separate` is faster, though.", "'faster' is said of LEVER_QKV"),
        ("| `fp16` | fails the gate |", "'fails the gate' is said of fp16"),
    ],
)
def test_a_verdict_in_words_needs_a_condition(sentence: str, said: str) -> None:
    """It is found where it judges a route or a lever; not measured is an answer, too."""
    (found,) = predicates.misses(f"# Title\n\n{sentence}\n")
    assert (found.line, found.sentence.startswith(said)) == (3, True), found
    marked = sentence.rstrip(".|") + "<!-- holds: not measured: nobody tried -->."
    assert list(predicates.misses(f"# Title\n\n{marked}\n")) == []


def test_words_about_no_route_are_left_alone() -> None:
    """A model is made faster, a case fails the gate, a figure has its marker: none is a bare claim."""
    text = (
        "Make a model faster. A case that fails the gate has no speed. `ferry run` is faster than `make`.\n"
        f"`sdpa` is faster, 2.25×<!-- = {RUN} geomean(speedup) -->. `other` hurts.\n"
    )
    assert list(predicates.misses(text)) == []


def test_two_formulas_are_held_against_each_other() -> None:
    """A claim across runs is one of their figures; the sentence has both values."""
    other = "20261130-134230/s13 median_ms"
    assert list(predicates.misses(f"It helps.<!-- holds: {other} < {RUN}/s13 median_ms -->\n")) == []
    (found,) = predicates.misses(f"It hurts.<!-- holds: {other} > {RUN}/s13 median_ms -->\n")
    assert found.sentence.endswith(f"{other} has 5.38685, {RUN}/s13 median_ms has 5.90784")
