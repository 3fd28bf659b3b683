"""`ferry verify kaggle:OWNER/SLUG/N` holds the service's own source and log against each other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from builder.runs import Run
from harness.events import Body, CaseDone, Plan, Terms
from tests.service.ferrying import ferry, held, passing, program, released
from tests.service.kaggle.server import KaggleServer
from tests.unit.written_logs import lines_of


def said(run: Run, bundle_sha256: str = "") -> list[Body]:
    """What the run's own kernel says, or one that carries another bundle."""
    facts = json.loads((run.part(1) / "bundle.json").read_text("utf-8"))
    own = {name: facts[name] for name in ("bundle_sha256", "harness_sha256", "model_sha256")}
    terms = Terms(**{**own, **({"bundle_sha256": bundle_sha256} if bundle_sha256 else {})})
    return [replace(body, terms=terms) if isinstance(body, Plan) else body for body in passing(run)]


def pulled(kaggle: KaggleServer, *options: str, bundle_sha256: str = "") -> tuple[Run, str]:
    """A run that went to the service and came back, and how its version is named."""
    run = held(kaggle, *options)
    released(kaggle, program(lines_of(said(run, bundle_sha256), run.id)))
    assert ferry("pull", run.id).code == 0
    accepted = run.submission(1)
    assert accepted is not None
    return run, f"kaggle:{accepted.reference}"


@pytest.mark.parametrize("form", ["notebook", "script"])
def test_source_and_log_of_the_service_are_those_of_the_run(hurried: KaggleServer, form: str) -> None:
    """Served is shown, by nothing but what the service sends and the run that lies here."""
    run, place = pulled(hurried, "--as", form)
    done = ferry("verify", place, "--json")
    assert done.code == 0, done.out + done.err
    assert done.document["run_id"] == run.id
    assert len(done.document["held"]) == 3
    assert "Served: yes" in ferry("verify", place).err


def test_another_bundle_in_the_log_is_found(hurried: KaggleServer) -> None:
    """A log of other code than the source is no evidence of it."""
    _, place = pulled(hurried, bundle_sha256="f" * 64)
    done = ferry("verify", place)
    assert done.code == 3
    assert "of another bundle than the source" in done.err
    assert "Served: not shown" in done.err


def test_other_figures_here_are_found(hurried: KaggleServer) -> None:
    """A run here whose log says something else than the service's is named by its cases."""
    run, place = pulled(hurried)
    for log in run.logs():
        log.write_text("\n".join(lines_of(retimed(run), run.id)) + "\n", "utf-8")
    done = ferry("verify", place)
    assert done.code == 3
    assert "the run here has other figures" in done.err


def retimed(run: Run) -> list[Body]:
    """The run's events with another first call."""
    return [replace(body, first_call_s=9.0) if isinstance(body, CaseDone) else body for body in said(run)]


def test_what_is_no_reference_is_one_sentence(hurried: KaggleServer, tmp_path: Path) -> None:
    """Neither two parts nor a version that is no number."""
    for place in ("kaggle:alice/slug", "kaggle:alice/slug/v1", "kaggle:"):
        assert ferry("verify", place).code == 2
