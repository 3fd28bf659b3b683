"""What a case is expected to take, how that is known, and what `ferry plan` says of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from builder import history
from builder.expecting import Where, expect
from builder.history import Past
from builder.spec import Selection, plan
from tests.command import ROOT
from tests.service.ferrying import ferry

PUBLISHED = ROOT / "runs" / "published"
MEASURED = "20261130-143908-d535ad"  # route sdpa on an H200
H200 = Where("slurm:short", "h200")


@pytest.fixture
def past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Past]:
    """What one run on an H200 tells."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    shutil.copytree(PUBLISHED / MEASURED, tmp_path / MEASURED)
    return history.gather({f"s{number:02}" for number in range(1, 15)})


def test_minutes_are_learned_from_the_same_case(past: list[Past]) -> None:
    """What the log says a case took on its card is what it is expected to take again."""
    cases = plan(Selection("official", "1-13", ("sdpa",)))
    found = expect(cases, H200, 1, past)
    took = {one.case_id: one.seconds for one in past}
    assert {case: one.seconds for case, one in found.items()} == {case.id: took[case.id] for case in cases}
    assert {one.how for one in found.values()} == {"learned from 1 run"}


def test_another_route_learns_from_the_shape_and_other_shapes_from_the_card(past: list[Past]) -> None:
    """Where nothing measured is the same, the guess is scaled as it was wrong for the others."""
    route = expect(plan(Selection("official", "6", ("eager",))), H200, 1, past)
    assert {one.how for one in route.values()} == {"learned from 1 run"}
    [other] = expect(plan(Selection("stress", "1")), H200, 1, past).values()
    assert (other.runs, other.how.startswith("estimated, scaled by")) == (0, True)


def test_another_device_learns_nothing(past: list[Past]) -> None:
    """An H200's minutes say nothing of a T4's: these are guessed."""
    t4 = Where("kaggle", "NvidiaTeslaT4")
    [guess] = expect(plan(Selection("official", "6")), t4, 1, past).values()
    assert guess.how == "estimated"
    assert guess.seconds > 60


def test_a_retracted_case_teaches_nothing(past: list[Past], tmp_path: Path) -> None:
    """What somebody has taken back is not learned from."""
    line = json.dumps({"case_id": past[0].case_id, "because": "noise"}) + "\n"
    (tmp_path / MEASURED / "retractions.jsonl").write_text(line)
    left = history.gather({past[0].shape})
    assert past[0].case_id not in {one.case_id for one in left}


def test_the_plan_names_minutes_parts_and_what_will_not_fit(past: list[Past]) -> None:
    """Nothing is made: people and programs are told the same."""
    words = ("plan", "--suite", "official", "--backend", "manual", "--accelerator", "h200")
    told = ferry(*words, "--route", "sdpa").err
    assert "learned from 1 run" in told and "15 of 15 cases in 1 part" in told
    done = ferry(*words[:3], "--budget", "20m", "--json")
    assert done.code == 0
    left_out, cases = done.document["left_out"], done.document["cases"]
    assert {case["case_id"] for case in cases if not case["place"]} == set(left_out)
    assert {"it does not fit the budget of 20 min of device time"} == set(left_out.values())
    assert done.document["device_s"] <= 20 * 60


@pytest.mark.parametrize(
    "words",
    [
        ("--backend", "local,kaggle", "--accelerator", "NvidiaTeslaT4"),
        ("--backend", "local,kaggle", "--accelerator", "any"),
        ("--backend", "local,local"),
        ("--backend", "local,nowhere"),
        ("--backend", "local,manual"),
    ],
)
def test_places_that_cannot_share_a_run(words: tuple[str, ...]) -> None:
    """An accelerator that one of the places cannot give, a place twice, unknown or by hand: exit 2."""
    assert ferry("plan", *words).code == 2
