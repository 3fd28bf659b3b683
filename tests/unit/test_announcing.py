"""What a push is estimated to take, and the limit that it is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builder.announcing import LEAST_S, SPARE, START_S, estimate_s, timeout_s
from builder.backends import Limits
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
