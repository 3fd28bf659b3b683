"""What a run gets of its machine: cards of its own, and what the profile says; reached without ssh."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from builder.backends import State
from builder.errors import RefusedHereError, RefusedThereError
from tests.service.sshd.backing import Making, part, said, started, until, until_state

NVIDIA_SMI = """#!/bin/sh
printf '0, GPU-aa, NVIDIA H200, 144384, 570.1, 9.0\\n1, GPU-bb, NVIDIA H200, 144384, 570.1, 9.0\\n'
printf '2, GPU-cc, Tesla T4, 15360, 570.1, 7.5\\n'
"""
CARDS = "import os, time\nprint(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def three_cards(tmp_path: Path) -> str:
    """A setup line that brings an nvidia-smi with three cards."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    return f"export PATH={tmp_path / 'bin'}:$PATH"


# --- cards ------------------------------------------------------------------------------------------------


def test_two_runs_never_share_a_card(place: Making, three_cards: str) -> None:
    """A run takes free cards of the kind that it asks for; one that finds none waits, and says for what."""
    backend = place(setup=(three_cards,))
    asked = {"accelerator": "h200", "devices": 1}
    runs = [started(backend, part(CARDS, number, **asked)) for number in (1, 2)]
    assert [said(run) for run in runs] == [["GPU-aa"], ["GPU-bb"]]
    other = started(backend, part(CARDS, 3, accelerator="t4"))
    assert said(other) == ["GPU-cc"]
    third = backend.submit(part(CARDS, 4, **asked))
    until(lambda: "waits for 1 of NVIDIA H200 0, NVIDIA H200 1" in backend.status([third])[0].message)
    fourth = backend.submit(part(CARDS, 5, **asked))
    until(lambda: "were here before" in backend.status([fourth])[0].message)
    backend.stop(fourth)
    assert backend.status([fourth])[0].state is State.CANCELLED
    backend.stop(runs[1])
    until_state(backend, third, State.RUNNING)
    until(lambda: said(third) == ["GPU-bb"])


def test_a_run_has_all_cards_of_its_kind_that_the_profile_allows(place: Making, three_cards: str) -> None:
    """Without a number of devices it takes every one; the profile's numbers are as nvidia-smi counts."""
    assert said(started(place(setup=(three_cards,)), part(CARDS, 1, accelerator="h200"))) == ["GPU-aa,GPU-bb"]
    only = place(setup=(three_cards,), devices=(2,))
    assert said(started(only, part(CARDS, 2, accelerator="any"))) == ["GPU-cc"]


# --- what the profile says --------------------------------------------------------------------------------


def test_a_kernel_has_the_profiles_words_and_nothing_of_the_connection(
    place: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Setup lines and environment reach it; names of the connection do not."""
    monkeypatch.setenv("SSH_CONNECTION", "here there")
    program = "import os\nprint(*(os.environ.get(name) for name in ('A', 'B', 'SSH_CONNECTION')), flush=True)"
    backend = place(setup=("echo chatter", "export A='one two'"), environment={"B": "three"})
    submission = backend.submit(part(program))
    until_state(backend, submission, State.DONE)
    assert b"".join(backend.follow_log(submission)) == b"one two three None\n"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"python": "no-such-python"}, "has no no-such-python"),
        ({"setup": ("true", "test a = b")}, "the setup line 'test a = b' failed"),
    ],
)
def test_a_profile_that_does_not_fit_is_named(place: Making, keys: dict[str, object], words: str) -> None:
    """The sentence says what is missing there, the hint which keys to look at."""
    with pytest.raises(RefusedHereError, match=words) as caught:
        place(**keys).submit(part("print(1)"))
    assert "`python` and `setup`" in caught.value.hint


def test_an_old_python_is_refused(place: Making, tmp_path: Path) -> None:
    """A Python before 3.10 says so instead of failing somewhere in the middle."""
    old = tmp_path / "python3.8"
    old.write_text(
        "#!/bin/sh\nisolated=$1 c=$2 code=$3; shift 3\n"
        f'exec {sys.executable} "$isolated" "$c" "import sys; sys.version_info = (3, 8, 1); $code" "$@"\n'
    )
    old.chmod(0o755)
    with pytest.raises(RefusedHereError, match=r"3\.10 or newer is needed, this is 3\.8"):
        place(python=str(old)).submit(part("print(1)"))


def test_a_folder_that_cannot_be_written_to_refuses(place: Making, tmp_path: Path) -> None:
    """Nothing is accepted, nothing is left over, and the sentence names the folder."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RefusedThereError, match="file/there"):
        place(folder=str(tmp_path / "file" / "there")).submit(part("print(1)"))


def test_a_full_disk_refuses(place: Making, tmp_path: Path) -> None:
    """A kernel that does not fit is no run."""
    intent = part("#" * 100_000)
    with pytest.raises(RefusedThereError, match="File too large"):
        place(setup=("ulimit -f 20",)).submit(intent)
    assert list((tmp_path / "there").iterdir()) == []
    assert place().find(intent) is None
