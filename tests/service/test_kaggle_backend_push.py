"""A push to Kaggle: what is sent, what counts as accepted, and what each refusal means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builder.errors import (
    CapacityError,
    Exit,
    FerryError,
    InfrastructureError,
    NoSlotError,
    RefusedThereError,
)
from tests.service.kaggle.knobs import FORECAST_QUOTA, SLOTS, WEEKLY_QUOTA, Fault, Shape, Trouble
from tests.service.kaggle.server import KaggleServer
from tests.service.kernels import backend, intent

SLUG = "ferry-20261130-101112-abcdef-1"


@pytest.mark.parametrize("form", ["script", "notebook"])
def test_what_is_pushed(kaggle_environment: KaggleServer, form: str) -> None:
    """Private, no internet, title and slug the same, one accelerator in all fields, the whole text."""
    pushed = intent(form=form, timeout_s=899.5)
    submission = backend().submit(pushed)
    [sent] = kaggle_environment.calls("SaveKernel")
    name = {"script": "kernel.py", "notebook": "kernel.ipynb"}[form]
    assert sent.body == {
        "slug": f"alice/{SLUG}",
        "newTitle": SLUG,
        "text": (pushed.folder / name).read_text(encoding="utf-8"),
        "language": "python",
        "kernelType": form,
        "isPrivate": True,
        "enableGpu": True,
        "enableTpu": False,
        "enableInternet": False,
        "machineShape": "NvidiaTeslaT4",
        "sessionTimeoutSeconds": 900,
    }
    assert submission.reference == f"alice/{SLUG}/1"
    assert submission.slug == SLUG
    assert submission.url.endswith(f"/alice/{SLUG}")


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ({"accelerator": "cpu"}, {"enableGpu": False, "enableTpu": False}),
        ({"accelerator": "TpuV5E8"}, {"enableGpu": False, "enableTpu": True, "machineShape": "TpuV5E8"}),
        ({"internet": True}, {"enableInternet": True, "machineShape": "NvidiaTeslaT4"}),
    ],
)
def test_the_terms_change_the_request(
    kaggle_environment: KaggleServer, terms: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Each term is in the request, and nothing that contradicts it."""
    backend().submit(intent(**terms))
    body = kaggle_environment.calls("SaveKernel")[0].body
    assert body | expected == body
    assert ("machineShape" in body) == ("machineShape" in expected)


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        (SLOTS, NoSlotError, Exit.CAPACITY),
        (WEEKLY_QUOTA, CapacityError, Exit.CAPACITY),
        (FORECAST_QUOTA, CapacityError, Exit.CAPACITY),
        ("Notebook not found", RefusedThereError, Exit.USAGE),
    ],
)
def test_refusal(kaggle_environment: KaggleServer, words: str, kind: type[FerryError], code: Exit) -> None:
    """A refusal inside a success has the service's words, its own class and something to do."""
    kaggle_environment.knobs.refusal = words
    with pytest.raises(FerryError) as caught:
        backend().submit(intent())
    assert type(caught.value) is kind
    assert caught.value.exit_code == code
    assert words in caught.value.message
    assert kaggle_environment.sessions == []


def test_gpu_slots(kaggle_environment: KaggleServer) -> None:
    """The third session at once is refused, and those that run are listed."""
    kaggle_environment.knobs.hold = True
    place = backend()
    for number in (1, 2):
        place.submit(intent(number=number))
    with pytest.raises(NoSlotError):
        place.submit(intent(number=3))
    assert len(place.active()) == place.limits().sessions == 2
    assert all("(queued)" in name for name in place.active())


def test_sessions_without_a_gpu_take_no_gpu_slot(kaggle_environment: KaggleServer) -> None:
    """A kernel that runs on a CPU is in nobody's way."""
    kaggle_environment.knobs.hold = True
    place = backend()
    place.submit(intent(accelerator="cpu"))
    assert place.active() == []
    place.submit(intent(number=2))
    assert len(place.active()) == 1


def test_looking_for_what_runs_costs_few_questions(kaggle_environment: KaggleServer) -> None:
    """However many kernels an account has run today, a push asks about the youngest only."""
    kaggle_environment.knobs.hold, kaggle_environment.knobs.gpu_slots = True, 20
    place = backend()
    for number in range(12):
        place.submit(intent(number=number))
    assert len(place.active()) == len(kaggle_environment.calls("GetKernelSessionStatus")) == 10


def test_source_limit(kaggle_environment: KaggleServer) -> None:
    """A kernel that is too large is refused with the service's sentence."""
    kaggle_environment.knobs.source_limit = 100
    shapes: tuple[Shape, ...] = ("flat", "nested")
    for shape in shapes:
        kaggle_environment.knobs.error_shape = shape
        with pytest.raises(RefusedThereError, match="must be less than 1 megabytes"):
            backend().submit(intent("#" * 200))


@pytest.mark.parametrize("what", ["invalidModelSources", "invalidDatasetSources", "invalidTags"])
def test_invalid(kaggle_environment: KaggleServer, what: str) -> None:
    """A kernel that was accepted without something is taken back and is no success."""
    kaggle_environment.knobs.invalid = {what: ["a/b/c"]}
    with pytest.raises(RefusedThereError, match="a/b/c"):
        backend().submit(intent())
    assert kaggle_environment.calls("DeleteKernel")
    assert backend().find(intent()) is None


@pytest.mark.parametrize("trouble", ["error", "reset", "cut"])
def test_fault_after_acceptance(kaggle_environment: KaggleServer, trouble: Trouble) -> None:
    """A lost answer is no refusal, and what was accepted is found with its version."""
    kaggle_environment.knobs.faults = [Fault("SaveKernel", trouble, accepted=True)]
    with pytest.raises(InfrastructureError):
        backend().submit(intent())
    found = backend().find(intent())
    assert found is not None
    assert found.reference == f"alice/{SLUG}/1"
    assert len(kaggle_environment.sessions) == 1


@pytest.mark.parametrize("trouble", ["error", "reset"])
def test_fault_before_acceptance(kaggle_environment: KaggleServer, trouble: Trouble) -> None:
    """Nothing is found of a push that was not accepted."""
    kaggle_environment.knobs.faults = [Fault("SaveKernel", trouble)]
    with pytest.raises(InfrastructureError):
        backend().submit(intent())
    assert backend().find(intent()) is None
    assert kaggle_environment.sessions == []


def test_silence(kaggle_environment: KaggleServer) -> None:
    """A service that says nothing is left after a while, with one sentence."""
    kaggle_environment.knobs.faults = [Fault("SaveKernel", "silence")]
    with pytest.raises(InfrastructureError, match="did not answer SaveKernel in time"):
        backend(read_s=0.5).submit(intent())


def test_unseen(kaggle_environment: KaggleServer) -> None:
    """A young kernel that can only be seen in the list is found there."""
    kaggle_environment.knobs.unseen_s = 600
    submission = backend().submit(intent())
    kaggle_environment.knobs.faults = [Fault("GetKernel", status=404, message="Not found")]
    assert backend().find(intent()) == submission


@pytest.mark.parametrize("shape", ["flat", "nested", "html", "html as json"])
@pytest.mark.parametrize("status", [429, 503, 200])
def test_fault_shapes(kaggle_environment: KaggleServer, shape: Shape, status: int) -> None:
    """Overload in any dress is infrastructure, with what the service asks for."""
    kaggle_environment.knobs.faults = [
        Fault("SaveKernel", status=status, shape=shape, retry_after="3" if status == 429 else "")
    ]
    with pytest.raises(InfrastructureError) as caught:
        backend().submit(intent())
    assert caught.value.retry_after_s == (3.0 if status == 429 else 0.0)
    assert "alice" not in caught.value.message


@pytest.mark.parametrize("status", [401, 403, 404])
def test_denied(kaggle_environment: KaggleServer, status: int) -> None:
    """A push that may not be is refused, not lost."""
    kaggle_environment.knobs.faults = [Fault("SaveKernel", status=status, message="no")]
    with pytest.raises(RefusedThereError, match=str(status)):
        backend().submit(intent())


def test_no_secret_is_in_what_is_shown(kaggle_environment: KaggleServer) -> None:
    """Neither the token nor its header is in a message, a hint or a repr, whatever went wrong."""
    place = backend(read_s=0.5)
    for fault in (
        Fault("SaveKernel", "reset"),
        Fault("SaveKernel", "silence"),
        Fault("SaveKernel", status=400),
    ):
        kaggle_environment.knobs.faults = [fault]
        with pytest.raises(FerryError) as caught:
            place.submit(intent())
        shown = f"{caught.value!r} {caught.value.message} {caught.value.hint} {vars(place.service)}"
        assert "token-of-alice" not in shown
        assert "Bearer" not in shown


def test_null_lists(kaggle_environment: KaggleServer) -> None:
    """A service that sends null for an empty list is understood."""
    kaggle_environment.knobs.null_lists = True
    place = backend()
    submission = place.submit(intent("print(1)\n"))
    kaggle_environment.sessions[0].wait()
    assert list(place.list_outputs(submission)) == []
    assert place.find(intent("print(1)\n")) == submission


def test_a_push_leaves_a_notebook_that_papermill_takes(kaggle_environment: KaggleServer) -> None:
    """The text that travels is a notebook with a kernel's name."""
    backend().submit(intent(form="notebook"))
    text = kaggle_environment.calls("SaveKernel")[0].body["text"]
    assert json.loads(text)["metadata"]["kernelspec"]["name"] == "python3"
    assert kaggle_environment.sessions[0].wait() == "COMPLETE"
