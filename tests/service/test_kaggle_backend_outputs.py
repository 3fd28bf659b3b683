"""The output files of a Kaggle run, its end, and the quota; with each thing that goes wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import DeniedError, InfrastructureError, RefusedThereError
from tests.service.kaggle.knobs import Fault
from tests.service.kaggle.server import KaggleServer
from tests.service.kernels import backend, ended, intent

FIVE = "for n in range(5): open(f'{n}.txt', 'w').write(str(n))\n"


@pytest.mark.parametrize("knob", ["page_limit", "page_repeats"])
def test_pages(kaggle_environment: KaggleServer, knob: str) -> None:
    """Every page is read to the end, also when each comes twice."""
    kaggle_environment.knobs.page_limit = 2
    kaggle_environment.knobs.page_repeats = knob == "page_repeats"
    place, submission = ended(kaggle_environment, FIVE)
    names = {file.name: file for file in place.list_outputs(submission)}
    assert sorted(names) == [f"{n}.txt" for n in range(5)]
    assert [b"".join(place.fetch_output(submission, names[f"{n}.txt"])) for n in range(5)] == [
        str(n).encode() for n in range(5)
    ]


def test_token_repeats(kaggle_environment: KaggleServer) -> None:
    """Pages without an end have one here."""
    kaggle_environment.knobs.page_limit = 2
    kaggle_environment.knobs.token_repeats = True
    place, submission = ended(kaggle_environment, FIVE)
    assert len(list(place.list_outputs(submission))) <= 6


@pytest.mark.parametrize("status", [403, 404, 200])
def test_link_life(kaggle_environment: KaggleServer, status: int) -> None:
    """The page behind an expired link is never taken for the file, whatever its status."""
    kaggle_environment.knobs.dead_link_status = status
    place, submission = ended(kaggle_environment)
    [file] = place.list_outputs(submission)
    kaggle_environment.knobs.link_life_s = 0
    with pytest.raises(InfrastructureError, match=r"result\.txt"):
        list(place.fetch_output(submission, file))


def test_a_web_page_that_is_the_file_comes(kaggle_environment: KaggleServer) -> None:
    """A kernel's own page is a file like others."""
    place, submission = ended(kaggle_environment, "open('page.html', 'w').write('<html>mine</html>')\n")
    [file] = place.list_outputs(submission)
    assert b"".join(place.fetch_output(submission, file)) == b"<html>mine</html>"


def test_short_by(kaggle_environment: KaggleServer) -> None:
    """A file that ends early is not whole."""
    place, submission = ended(kaggle_environment)
    kaggle_environment.knobs.short_by = 1
    [file] = place.list_outputs(submission)
    with pytest.raises(InfrastructureError, match=r"result\.txt"):
        list(place.fetch_output(submission, file))


def test_downloads_carry_no_credential(kaggle_environment: KaggleServer) -> None:
    """A signed link has its own right: whoever it leads to gets no credential of ours."""
    Path("~/.netrc").expanduser().write_text("machine 127.0.0.1 login alice password secret\n")
    place, submission = ended(kaggle_environment)
    [file] = place.list_outputs(submission)
    list(place.fetch_output(submission, file))
    assert [request.auth for request in kaggle_environment.calls("download")] == ["none"]


# --- the end ----------------------------------------------------------------------------------------------


def test_stop_deletes(kaggle_environment: KaggleServer) -> None:
    """Stopping deletes the kernel, and with it the session."""
    place = backend()
    submission = place.submit(intent("import time\ntime.sleep(60)\n"))
    place.stop(submission)
    assert kaggle_environment.sessions[0].wait() == "CANCEL_ACKNOWLEDGED"
    assert place.active() == []
    with pytest.raises(DeniedError):
        place.status([submission])


def test_a_deletion_that_is_refused_is_told(kaggle_environment: KaggleServer) -> None:
    """What the service says inside a success counts."""
    place, submission = ended(kaggle_environment)
    kaggle_environment.knobs.faults = [Fault("DeleteKernel", status=400, message="it is protected")]
    with pytest.raises(RefusedThereError, match="it is protected"):
        place.stop(submission)


@pytest.mark.parametrize("without_used", [False, True])
def test_quota_without_used(kaggle_environment: KaggleServer, without_used: bool) -> None:
    """The week's hours are read, and a quota that does not say what was used counts as unused."""
    kaggle_environment.knobs.gpu_used_s = 0 if without_used else 7200
    kaggle_environment.knobs.quota_without_used = without_used
    gpu, tpu = backend().quota()
    assert (gpu.resource, tpu.resource) == ("GPU", "TPU")
    assert gpu.total_s == 108_000
    assert gpu.left_s == (108_000 if without_used else 100_800)
    assert gpu.refreshes_at
