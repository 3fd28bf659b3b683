"""Several parts of a run that go to Slurm as one array."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from builder import runs, submission, together
from builder.backends import Intent, State, Submission
from builder.backends.slurm import Slurm
from builder.errors import InfrastructureError, RefusedThereError
from builder.runs import Run
from builder.spec import RunSpec
from tests.service.slurm.conftest import Jobs, until
from tests.unit.clocks import Hourglass

pytestmark = pytest.mark.cluster

PARTS = (1, 2, 3)


class Deaf(Slurm):
    """Slurm, whose answer to a push is lost."""

    def submit_all(self, intents: Sequence[Intent]) -> list[Submission]:
        """Submit, and say nothing."""
        super().submit_all(intents)
        raise InfrastructureError("the connection was lost")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run with three parts that nobody has accepted."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    spec = RunSpec("smoke", (), run_id=runs.new_run_id(), accelerator="cpu", timeout_s=60.0)
    with runs.create(spec) as draft:
        for part in PARTS:
            draft.part(part).mkdir(parents=True)
            (draft.part(part) / "kernel.py").write_text(f"print({part})\n")
    return Run(tmp_path / spec.run_id)


def test_parts_go_as_one_array(jobs: Jobs, run: Run) -> None:
    """Parts that are submitted together are elements of one job; submitting them again changes nothing."""
    place = jobs.place()
    accepted = together.submit(run, PARTS, place, Hourglass())
    assert len({one.reference.partition("_")[0] for one in accepted}) == 1
    assert together.submit(run, PARTS, place, Hourglass()) == accepted
    until(lambda: all(status.state is State.DONE for status in place.status(accepted)))
    assert [jobs.log(one) for one in accepted] == ["1\n", "2\n", "3\n"]


def test_a_lost_answer_makes_no_second_array(jobs: Jobs, run: Run) -> None:
    """When the connection breaks after Slurm took the parts each is found, and none is pushed again."""
    place = jobs.place()
    accepted = together.submit(run, PARTS, Deaf(place.profile, place.name, place.runner), Hourglass())
    named = [seen for seen in place.cluster.queue() if seen.name == accepted[0].slug]
    assert len(named) == len(PARTS)
    until(lambda: all(status.state is State.DONE for status in place.status(accepted)))


def test_a_refusal_is_every_parts(jobs: Jobs, run: Run) -> None:
    """What Slurm says no to is in the journal for each part, and nothing is left over there."""
    place = jobs.place(extra=("--gres=gpu:t4:3",))
    with pytest.raises(RefusedThereError):
        together.submit(run, PARTS, place, Hourglass())
    assert {run.state(part) for part in PARTS} == {"refused"}
    assert place.find(submission.intent(run, 1)) is None
