"""The levers and the router: what may be asked for, and what is said to the rest."""

from __future__ import annotations

import pytest

from builder import declared, spec
from harness.baseline import TransformerConfig
from harness.shapes import CHOOSING_ROUTES, SUITES
from model import levers, router
from model.levers import LEVERS, Settings
from tests.device.model_cases import candidate

KNOWN = ", ".join(router.names())
CONFIG = TransformerConfig(1, 4, 8, 1, 8, 1, True)


def test_defaults_are_the_table_s() -> None:
    """With nothing set every lever has its default, which it also takes when it is set to that."""
    unset = levers.read({})
    assert unset == Settings(
        route="auto",
        fused_qkv=True,
        inplace_residual=True,
        chunk=None,
        tokens=None,
        precision="safe",
        products="triton",
        attention="triton",
        graph="auto",
    )
    assert levers.read({lever.name: lever.default for lever in LEVERS}) == unset


def test_every_value_of_the_table_is_taken() -> None:
    """Each allowed value of each lever is read, and moves that lever only."""
    for lever in LEVERS:
        for value in (*lever.values, *(["16"] if lever.counts else [])):
            changed = levers.read({lever.name: value})
            assert (changed == levers.read({})) == (value == lever.default)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        (
            "LEVER_ROUTE",
            "flashy",
            KNOWN,
        ),
        (
            "LEVER_ROUTE",
            "",
            KNOWN,
        ),
        ("LEVER_QKV", "both", "fused, separate"),
        ("LEVER_RESIDUAL", "INPLACE", "inplace, new"),
        ("LEVER_CHUNK", "0", "auto, a whole number from 1"),
        ("LEVER_CHUNK", "-3", "auto, a whole number from 1"),
        ("LEVER_CHUNK", "1.5", "auto, a whole number from 1"),
        ("LEVER_CHUNK", "³", "auto, a whole number from 1"),
    ],
)
def test_an_unknown_value_is_refused(
    name: str, value: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that the table lacks fails when the model is built, and the message lists what is known."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=rf"^{name}='{value}' is not one of: {allowed}$"):
        candidate(CONFIG)


def test_an_unknown_lever_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lever that the table lacks fails when the model is built, and the message lists what is known."""
    monkeypatch.setenv("LEVER_ROUT", "sdpa")
    with pytest.raises(ValueError, match=r"unknown lever LEVER_ROUT; known are: LEVER_ROUTE, LEVER_QKV,"):
        candidate(CONFIG)


def test_levers_are_read_at_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set after a model was built does not reach it."""
    model = candidate(CONFIG, route="eager")
    monkeypatch.setenv("LEVER_ROUTE", "sdpa")
    assert model.route_ran == "eager"


def test_an_unknown_route_is_refused() -> None:
    """The router fails for a name it lacks and lists those it has."""
    with pytest.raises(
        ValueError,
        match="unknown route 'nope'; known are: auto, safe, fast, fp16, amp, chunked",
    ):
        router.load("nope")


def test_a_route_bears_the_name_of_its_file() -> None:
    """Each file in `routes/` loads, and says its own name."""
    assert [router.load(name).ran for name in router.files()] == list(router.files())


def test_the_host_lists_the_same_routes() -> None:
    """What the command line takes for a route is what the model knows, and what is a choice may fall back."""
    assert spec.routes() == list(router.names())
    assert set(router.CHOICES) <= CHOOSING_ROUTES


def test_the_host_lists_the_same_levers() -> None:
    """What the command line takes for a lever is what the model declares."""
    assert declared.levers() == [lever.name for lever in levers.LEVERS]


def test_the_suites_ask_for_what_there_is() -> None:
    """Every route and lever setting of a suite is known to the model."""
    for suite in SUITES.values():
        assert {*suite.routes, *(extra.route for extra in suite.extras if extra.route)} <= set(router.names())
        for setting in suite.lever_settings:
            levers.read(setting)
