"""What a push is estimated to take, and the limit that it is given."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from builder.announcing import LEAST_S, SPARE, START_S, estimate_s, timeout_s
from builder.backends import Limits
from builder.estimates import foretold
from builder.spec import RunSpec, Selection, plan
from harness.shapes import cost_s

KAGGLE = Limits(session_s=43_200.0)
OFFICIAL = RunSpec("official", plan(Selection("official")), accelerator="NvidiaTeslaT4")
SMOKE = RunSpec("smoke", plan(Selection("smoke")), accelerator="NvidiaTeslaT4")


def test_two_cards_share_the_cases() -> None:
    """The estimate is the session's start and half the cases' costs, or the longest case's."""
    costs = [min(OFFICIAL.case_timeout_s, cost_s(case)) for case in OFFICIAL.cases]
    assert estimate_s(OFFICIAL) == pytest.approx(START_S + max(*costs, sum(costs) / 2))
    assert estimate_s(replace(OFFICIAL, devices=1)) == pytest.approx(START_S + sum(costs))


def test_the_limit_has_room_and_bounds() -> None:
    """Three times the estimate in whole minutes, at least a quarter of an hour, at most a session."""
    assert timeout_s(SMOKE, KAGGLE) == LEAST_S
    many = replace(OFFICIAL, seeds=20)
    assert SPARE * estimate_s(many) <= timeout_s(many, KAGGLE) <= SPARE * estimate_s(many) + 60
    assert timeout_s(replace(OFFICIAL, seeds=100_000, case_timeout_s=0.0), KAGGLE) == 43_200.0


def test_a_limit_of_the_users_own_stays() -> None:
    """What was asked for is not touched, and where no session ends there is none."""
    assert timeout_s(replace(SMOKE, timeout_s=70.0), KAGGLE) == 70.0
    assert timeout_s(SMOKE, Limits()) == 0.0


def test_a_probe_is_short() -> None:
    """A run without cases takes a session's start alone."""
    assert estimate_s(RunSpec("probe", ())) == START_S


def test_the_contests_suite_fits_a_session_of_two_t4() -> None:
    """Both of our choices over all shapes take less than a sixth of the longest session, and so its limit."""
    both = replace(OFFICIAL, cases=plan(Selection("official", routes=("safe", "fast"))))
    assert estimate_s(both) < KAGGLE.session_s / 6
    assert timeout_s(both, KAGGLE) < KAGGLE.session_s


def test_what_a_t4_should_show_is_said_as_an_estimate() -> None:
    """One sentence for the routes that the model knows, and none of a card that it does not know."""
    told = foretold(OFFICIAL.cases, "Tesla T4")
    assert re.match(
        r"estimated, not measured by us, of a Tesla T4: auto \d+\.\d to \d+\.\d times as fast", told
    )
    assert foretold(OFFICIAL.cases, "NVIDIA L4") == ""
    assert foretold(plan(Selection("official", routes=("compiled",))), "Tesla T4") == ""
