"""The router: what was measured, else what is near it, else a rule; and never nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import router
from model.router import Entry, Problem

H200 = Problem("NVIDIA H200", (9, 0), "float32", False, 64, 128, 128, 4, 128, 4, True)
CPU = replace(H200, device="cpu", capability=(0, 0))
T4 = replace(H200, device="Tesla T4", capability=(7, 5))
ALL = frozenset({"sdpa", "stack", "wide", "compiled"})


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """A table that a test fills."""
    entries: list[Entry] = []
    monkeypatch.setattr(router, "table", lambda: entries)
    return entries


def first(choice: str, problem: Problem) -> str:
    """The route that is tried first."""
    return next(router.options(choice, problem)).route


NEIGHBOURS: dict[str, dict[str, Any]] = {
    "itself": {},
    "one row more": {"batch": 65},
    "one row less": {"batch": 63},
    "one token more": {"seq_len": 129},
    "one token less": {"seq_len": 127},
    "narrower": {"d_model": 96, "ffn_dim": 96},
    "five layers": {"layers": 5},
    "another card of its make": {"device": "NVIDIA H100 80GB HBM3"},
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_neighbour_is_treated_alike(table: list[Entry], name: str) -> None:
    """What was measured at a shape is taken there and beside it, with its levers."""
    table += [
        Entry("safe", H200, "wide", {"LEVER_PRODUCTS": "cublas"}, "run", ALL),
        Entry("safe", replace(H200, batch=10000), "sdpa", {}, "run", ALL),
    ]
    option = next(router.options("safe", replace(H200, **NEIGHBOURS[name])))
    assert (option.route, option.levers) == ("wide", {"LEVER_PRODUCTS": "cublas"})


@pytest.mark.parametrize(
    "changes",
    [
        {"d_model": 1024},
        {"seq_len": 1024},
        {"batch": 1},
        {"causal": False},
        {"dtype": "float16"},
        {"tf32": True},
        {"capability": (8, 0)},
    ],
)
def test_what_is_far_takes_the_rule(table: list[Entry], changes: dict[str, Any]) -> None:
    """Another width, length, number of tokens, dtype or make of card: the entry says nothing there."""
    table.append(Entry("safe", H200, "sdpa", {}, "run", ALL))
    problem = replace(H200, **changes)
    assert first("safe", problem) == router.rule("safe", problem)[0]


def test_what_compiles_is_taken_for_the_very_shape_only(table: list[Entry]) -> None:
    """Beside a shape where `compiled` was fastest the rule holds: no storm of compilations."""
    table.append(Entry("fp16", H200, "compiled", {}, "run", ALL))
    assert first("fp16", H200) == "compiled"
    assert first("fp16", replace(H200, batch=65)) == "stack"


def test_an_entry_says_nothing_against_what_was_not_measured(table: list[Entry]) -> None:
    """Where the rule's own route stands outside the comparison, the rule holds."""
    table.append(Entry("safe", H200, "compiled", {}, "run", frozenset({"sdpa", "compiled"})))
    assert first("safe", H200) == "stack"


def test_auto_is_safe_once_that_is_measured(table: list[Entry]) -> None:
    """Unasked the model does what `safe` does on a card whose capability a run has measured, else sdpa."""
    assert [first(choice, H200) for choice in ("auto", "safe")] == ["sdpa", "stack"]
    table.append(Entry("safe", H200, "wide", {}, "run", ALL))
    assert first("auto", H200) == first("safe", H200) == "wide"
    far = replace(H200, seq_len=4096)
    assert first("auto", far) == first("safe", far) == "stack"
    assert first("auto", T4) == "sdpa"


def test_rules_by_device(table: list[Entry]) -> None:
    """A CPU compiles for `fast`, a T4 has `cuda`, an older card no ops; widths beyond 128 are `wide`'s."""
    assert [first(choice, CPU) for choice in ("safe", "fast", "fp16")] == ["sdpa", "compiled", "sdpa"]
    assert [first(choice, T4) for choice in ("safe", "fast", "fp16")] == ["cuda"] * 3
    old = replace(T4, device="Tesla V100", capability=(7, 0))
    assert [first(choice, old) for choice in ("safe", "fast", "fp16")] == ["sdpa", "sdpa", "amp"]
    assert [first("safe", replace(H200, d_model=width)) for width in (96, 128, 129)] == [
        "stack",
        "stack",
        "wide",
    ]


@given(
    sizes=st.tuples(*[st.integers(1, 10**5)] * 6),
    capability=st.sampled_from([(0, 0), (7, 5), (8, 0), (9, 0), (12, 0)]),
    choice=st.sampled_from([*router.CHOICES]),
    dtype=st.sampled_from(["float32", "float16", "bfloat16", "float64"]),
)
def test_there_is_always_a_route(
    sizes: tuple[int, ...], capability: tuple[int, int], choice: str, dtype: str
) -> None:
    """Whatever the shape and the device, the real table leads to known routes, the last of them sdpa."""
    problem = Problem("some card", capability, dtype, False, *sizes, True)  # type: ignore[call-arg, arg-type]
    found = [option.route for option in router.options(choice, problem)]
    assert set(found) <= set(router.files()) and found[-1] == "sdpa"


def test_the_real_table_is_read() -> None:
    """Every entry names a known choice and route that serves it."""
    assert router.table()
    for entry in router.table():
        assert entry.choice in router.CHOICES and entry.route in entry.measured
        router.served(entry.route, entry.choice)
