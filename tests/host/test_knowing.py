"""Not twice: which results a run takes over from others, and what makes it measure anew."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from builder import history, knowing, runs
from builder.bundle import Bundle, make_bundle
from builder.history import Past
from builder.knowing import code_sha256, recall
from builder.runs import Run
from builder.spec import RunSpec, Selection, plan
from tests.service.ferrying import ferry
from tests.unit.clocks import Hourglass

SPEC = RunSpec("smoke", plan(Selection("smoke", "1", ("eager",))), accelerator="cpu", reuse=True)
[CASE] = SPEC.cases


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """The code that lies here."""
    return make_bundle(SPEC)


@pytest.fixture
def past(bundle: Bundle) -> Past:
    """A result of just now, of the code that lies here."""
    return Past(
        run_id="20261130-101112-abcdef",
        case_id=CASE.id,
        case=history.case_sha256(CASE),
        terms=history.terms_sha256(1, 0.0, False, ""),
        shape=CASE.shape.key,
        status="passed",
        cost_s=15.0,
        seconds=9.0,
        backend="local",
        device="AMD EPYC",
        versions=history.versions("2.6", "", ""),
        harness_sha256=bundle.harness_sha256,
        model_sha256=bundle.model_sha256,
        at=datetime.now(UTC).isoformat(),
    )


def known(bundle: Bundle, *past: Past, spec: RunSpec = SPEC) -> bool:
    """Whether the case is taken over."""
    return bool(recall(spec, bundle, past, Hourglass()).known)


def test_the_same_key_is_known(bundle: Bundle, past: Past) -> None:
    """All the same: it is not run twice, unless that is asked for."""
    assert known(bundle, past)
    assert not known(bundle, past, spec=replace(SPEC, reuse=False))


@pytest.mark.parametrize(
    "other",
    [
        {"case": "another"},
        {"terms": "others"},
        {"harness_sha256": "another"},
        {"model_sha256": "another"},
        {"backend": "kaggle"},
        {"device": "Tesla T4"},
        {"is_trusted": False},
        {"mismatch": True},
        {"status": "not_run"},
        {"at": "yesterday"},
    ],
)
def test_any_other_key_is_not(bundle: Bundle, past: Past, other: dict[str, object]) -> None:
    """Each part of the key counts, and what cannot be trusted does not."""
    assert not known(bundle, msgspec.structs.replace(past, **other))


def test_other_versions_are_another_key(bundle: Bundle, past: Past) -> None:
    """What a place had when it was last seen is what a result must be of."""
    newer = msgspec.structs.replace(past, case="another", versions=history.versions("2.7", "", ""))
    assert not known(bundle, newer, past)
    assert known(bundle, past, newer)


@pytest.mark.parametrize(("status", "days"), [("failed_gate", 7), ("error", 1), ("timeout", 1), ("oom", 1)])
def test_failures_are_remembered_for_a_while(bundle: Bundle, past: Past, status: str, days: int) -> None:
    """A failure is no reason to fail again today; after its time it is tried again."""
    for age, remembered in ((days - 0.1, True), (days + 0.1, False)):
        at = (datetime.now(UTC) - timedelta(days=age)).isoformat()
        assert known(bundle, msgspec.structs.replace(past, status=status, at=at)) is remembered


def test_only_what_was_imported_is_code(bundle: Bundle, past: Past) -> None:
    """A file of the model that the case never imported may change; one that it did may not."""
    imported = tuple(name for name in bundle.files if name.startswith("model/") and "compiled" not in name)
    one = msgspec.structs.replace(
        past, imported=imported, code=code_sha256(bundle.files, imported), model_sha256="another"
    )
    assert known(bundle, one)
    touched = {name: data + b"\n" if "compiled" in name else data for name, data in bundle.files.items()}
    assert touched != bundle.files
    assert known(replace(bundle, files=touched), one)
    touched = {**bundle.files, imported[-1]: b"\n"}
    assert not known(replace(bundle, files=touched), one)


def rows(run: Run) -> list[dict[str, str]]:
    """The run's results."""
    with (run.folder / "results.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_run_takes_over_what_another_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the new case is sent; the other's row is the first run's, says so, and stands by itself."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "runs"))
    assert ferry("run", "--shapes", "1", "--route", "eager").code == 0
    [first] = runs.all_runs()
    done = ferry("run", "--shapes", "1,2", "--route", "eager", "--reuse")
    assert done.code == 0, done.err
    assert f"known already: 1 case, from {first.id}" in done.err
    second = runs.all_runs()[0]
    assert [len(second.part_spec(part).cases) for part in second.parts()] == [1]
    [old, new] = rows(second)
    [measured] = rows(first)
    assert f"from={first.id}" in old["flags"] and "from=" not in new["flags"]
    assert old["median_ms"] == measured["median_ms"] and old["status"] == "passed"
    first.folder.rename(tmp_path / "elsewhere")
    before = (second.folder / "results.csv").read_bytes()
    assert ferry("parse", second.id).code == 0
    assert (second.folder / "results.csv").read_bytes() == before
    assert second.is_finished
    assert knowing.REMEMBERED_S["passed"] > knowing.REMEMBERED_S["error"]
