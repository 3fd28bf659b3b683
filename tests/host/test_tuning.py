"""The router's table comes from measured runs, and from nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builder import declared, tuning
from builder.reading import Reading, read
from builder.results import Row
from tests.command import ROOT, run_ferry
from tests.unit.measured_logs import S01, Measured, write_log

PUBLISHED = ROOT / "runs" / "published"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    """One case of one run, read from a log."""
    return read(str(write_log(tmp_path_factory.mktemp("log") / "a.log", [Measured(S01)])))


def row(base: Reading, route: str, ms: float, **changes: Any) -> Row:
    """The case as another route would have run it, in so many milliseconds, with no TF32 anywhere."""
    return replace(
        base.rows[0], route=route, **{"route_ran": route, "median_ms": ms, "tf32": "off", **changes}
    )


def choices(*readings: Reading) -> dict[str, str]:
    """What each choice would take, with its levers."""
    found = tuning.derive(readings)
    return {str(entry["choice"]): " ".join([str(entry["route"]), *_levers(entry)]) for entry in found}


def _levers(entry: dict[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in entry["levers"].items()]


def of(base: Reading, *rows: Row, name: str = "20260101-000000-aaaaaa") -> Reading:
    """A run of these rows."""
    return replace(base, name=name, rows=rows)


def test_the_table_is_what_the_committed_runs_say() -> None:
    """Derived again from the raw logs, the table in the model is the same to the byte."""
    made = tuning.text(tuning.derive(tuning.published(PUBLISHED)))
    assert tuning.TABLE.read_text(encoding="utf-8") == made


def test_the_fastest_route_is_taken_and_the_entry_names_its_run(base: Reading) -> None:
    """Of two routes the faster one stands in the entry, beside all times, with run and case."""
    [safe, *_] = [
        entry
        for entry in tuning.derive([of(base, row(base, "sdpa", 2.0), row(base, "compiled", 1.0))])
        if entry["choice"] == "safe"
    ]
    assert (safe["route"], safe["ms"]) == ("compiled", {"compiled": 1.0, "sdpa": 2.0})
    assert (safe["run"], safe["case"]) == ("20260101-000000-aaaaaa", S01.id)
    assert safe["shape"] == [64, 128, 128, 4, 128, 4]


def test_one_route_alone_is_no_choice(base: Reading) -> None:
    """Where a single candidate was measured there is no entry."""
    assert choices(of(base, row(base, "sdpa", 2.0))) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "failed_gate"},
        {"protocol": "short"},
        {"protocol": "strict"},
        {"device": "cpu"},
        {"route_ran": "eager"},
        {"median_ms": None},
        {"max_abs": 3e-5},
        {"tf32": "on"},
        {"tf32": "on", "flags": {"tf32_ran": "yes"}},
    ],
)
def test_what_proves_nothing_is_not_safe(base: Reading, changes: dict[str, Any]) -> None:
    """A row that failed, was short, ran otherwise, or may have used TF32 is no candidate for `safe`."""
    rows = row(base, "sdpa", 2.0), row(base, "graphed", 3.0), row(base, "compiled", 1.0, **changes)
    assert choices(of(base, *rows))["safe"] == "sdpa"


def test_half_of_the_gate_is_left_to_fast(base: Reading) -> None:
    """A row that used more of the gate than half serves `fp16` and not `fast`."""
    rows = row(base, "sdpa", 2.0), row(base, "graphed", 3.0), row(base, "compiled", 1.0, gate_share=0.6)
    found = choices(of(base, *rows))
    assert (found["fast"], found["fp16"]) == ("sdpa", "compiled")


def test_a_choice_that_ran_measures_its_route(base: Reading) -> None:
    """A row of `fp16` says how fast the route it took is, under that choice's levers and for no other one."""
    rows = row(base, "sdpa", 2.0), row(base, "fp16", 1.0, route_ran="wide")
    assert choices(of(base, *rows)) == {"fp16": "wide LEVER_PRECISION=fp16"}


def test_levers_tell_candidates_apart(base: Reading) -> None:
    """A route under other levers is another candidate, and its precision says which choice it serves."""
    rows = (
        row(base, "wide", 3.0),
        row(base, "wide", 2.0, levers={"LEVER_PRODUCTS": "cublas"}),
        row(base, "wide", 1.0, levers={"LEVER_PRECISION": "fast"}),
    )
    assert choices(of(base, *rows)) == {"safe": "wide LEVER_PRODUCTS=cublas"}


def test_the_newest_measurement_counts(base: Reading) -> None:
    """Of two runs of one candidate the later decides, in whatever order they are read."""
    old = of(base, row(base, "sdpa", 2.0), row(base, "compiled", 1.0))
    new = of(base, row(base, "compiled", 3.0), name="20260102-000000-aaaaaa")
    assert choices(old, new)["safe"] == choices(new, old)["safe"] == "sdpa"


@pytest.mark.slow
def test_the_command_checks_and_writes(tmp_path: Path) -> None:
    """`--check` is exit 3 for a table that is not the runs', and writing mends it."""
    runs = tmp_path / "runs"
    runs.mkdir()
    one = "20261130-143908-d535ad"
    (runs / one).symlink_to(PUBLISHED / one)
    table = tmp_path / "table.json"
    asked = ("tune", "--runs", str(runs), "-o", str(table))
    assert run_ferry(*asked, "--check").returncode == 3
    assert run_ferry(*asked).returncode == 0
    assert run_ferry(*asked, "--check").returncode == 0
    assert run_ferry("tune", "--runs", str(tmp_path / "none")).returncode == 2


def test_what_a_route_serves_is_read_as_the_model_has_it() -> None:
    """The text that the host reads says what the model's modules hold."""
    from importlib import import_module

    for route in declared.files():
        module = import_module(f"model.routes.{route.name}")
        assert route.serves == module.SERVES
        assert (module.__doc__ or "").startswith(route.about)
