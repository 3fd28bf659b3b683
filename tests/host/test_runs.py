"""Run folders and journals survive what happens to them."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from builder import crossing, runs
from builder.backends import State, Submission
from builder.disk import RUN_ID
from builder.errors import UsageError
from builder.runs import Run
from builder.spec import RunSpec, Selection, plan


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run on disk with one part."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    return make_run()


def make_run(run_id: str = "20261130-101112-abcdef") -> Run:
    """Put a run with one part on disk."""
    with runs.create(RunSpec("smoke", plan(Selection()), run_id=run_id)) as draft:
        draft.part(1).mkdir(parents=True)
    return Run(runs.runs_root() / run_id)


def test_runs_of_one_second_sort_by_age() -> None:
    """The newest run comes first also where several were made within a second."""
    made = [runs.new_run_id() for _ in range(1000)]
    assert made == sorted(set(made))
    assert RUN_ID.fullmatch(made[0])


def test_a_spec_comes_back_as_it_went(run: Run) -> None:
    """The spec on disk is the spec, cases and all."""
    assert run.spec == RunSpec("smoke", plan(Selection()), run_id=run.id)


def test_a_run_that_fails_in_the_making_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal while the folder is made leaves neither the folder nor a draft."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    with pytest.raises(UsageError), runs.create(RunSpec("smoke", (), run_id="20261130-101112-abcdef")):
        raise UsageError("no")
    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_is_never_overwritten(run: Run) -> None:
    """A second run of the same id is an error and the first one stays."""
    run.record("queued", 1)
    with pytest.raises(OSError):
        make_run(run.id)
    assert run.state(1) == "queued"


def test_a_journal_cut_by_a_kill_stays_readable(run: Run) -> None:
    """Half a line is left out, and what is written after it is kept apart from it."""
    run.record(State.INTENT, 1)
    with (run.folder / "journal.jsonl").open("a") as stream:
        stream.write('{"at": "2026-11-30T10:')
    run.record(State.QUEUED, 1, "here")
    assert [(entry.state, entry.detail) for entry in run.journal()] == [("intent", ""), ("queued", "here")]
    assert run.state(1) == "queued"


def _append_many(folder: Path) -> None:
    for _ in range(25):
        Run(folder).record("running", 1, "x" * 300)


def test_processes_do_not_lose_each_others_entries(run: Run) -> None:
    """Four processes that write at once leave every entry whole."""
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_many, args=(run.folder,)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = (run.folder / "journal.jsonl").read_text().splitlines()
    assert len(lines) == 100
    assert all(json.loads(line)["detail"] == "x" * 300 for line in lines)


def test_a_prefix_names_a_run_and_several_are_listed(run: Run) -> None:
    """A unique beginning is enough; an ambiguous one lists what fits and exits 2."""
    other = make_run("20261130-101113-000000")
    assert runs.find("20261130-101112").id == run.id
    with pytest.raises(UsageError) as caught:
        runs.find("20261130")
    assert run.id in caught.value.message
    assert other.id in caught.value.message


def test_without_a_name_the_last_unfinished_run_is_meant(run: Run) -> None:
    """The newest run that has not been parsed; none at all is a clear error."""
    newer = make_run("20261130-101113-000000")
    assert runs.find(None).id == newer.id
    newer.record("parsed")
    assert runs.find(None).id == run.id
    run.record("parsed")
    with pytest.raises(UsageError, match="unfinished"):
        runs.find(None)


def test_a_submission_comes_back_as_it_went(run: Run) -> None:
    """What a place accepted can be asked for again from another shell."""
    assert run.submission(1) is None
    accepted = Submission("local", "/some/where", "ferry-x-1", "https://example.org/é")
    run.write_submission(1, accepted)
    assert run.submission(1) == accepted


def test_a_damaged_spec_is_one_sentence(run: Run) -> None:
    """A spec that somebody edited into nonsense names the file."""
    (run.folder / "spec.json").write_text('{"suite": 3}')
    with pytest.raises(UsageError, match=r"spec\.json"):
        _ = run.spec


def test_a_damaged_submission_is_one_sentence(run: Run) -> None:
    """An acceptance that is no JSON names the file."""
    (run.part(1) / "submission.json").write_text("{")
    with pytest.raises(UsageError, match=r"submission\.json"):
        run.submission(1)


def test_a_journal_with_bytes_that_are_no_text_stays_readable(run: Run) -> None:
    """What can be read of it is, and the rest is left out."""
    run.record(State.INTENT, 1)
    with (run.folder / "journal.jsonl").open("ab") as stream:
        stream.write(b"\xff\xfe\x00\n" + b"[" * 100_000 + b"\n")
    run.record(State.QUEUED, 1)
    assert [entry.state for entry in run.journal()] == ["intent", "queued"]


def test_strange_folders_among_the_parts_are_no_parts(run: Run) -> None:
    """A part's folder is a whole number and nothing else."""
    for name in ("2x", "²", "03", ".new"):
        (run.folder / "parts" / name).mkdir()
    assert run.parts() == [1]


def test_a_run_that_is_parsed_too_early_is_not_finished(run: Run) -> None:
    """Its rows are unknown, and it is still the one that `ferry pull` means."""
    run.record(State.RUNNING, 1)
    assert {row.status for row in crossing.parse(run).rows} == {"unknown"}
    assert runs.find(None).id == run.id
    run.record("fetched", 1)
    crossing.parse(run)
    assert run.is_finished


def test_a_run_may_be_named_by_its_folder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by `.` from inside it."""
    monkeypatch.chdir(run.folder)
    assert runs.find(".").id == run.id


def test_a_folder_outside_the_runs_has_no_place_among_them(run: Run, tmp_path: Path) -> None:
    """It is named, with the setting that mends it."""
    with pytest.raises(UsageError, match="is not among the runs"):
        runs.place(tmp_path.parent)


def test_what_is_no_regular_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """A pipe stays a pipe, so that /dev/stdout may be named as an output."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    runs.atomic_write(pipe, "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert pipe.is_fifo()
