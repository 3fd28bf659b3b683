"""Whoever wins without being faster is disqualified under `strict`, and nobody is who is only unusual."""

import ast
import re
import shutil
from pathlib import Path

import pytest
import torch

from harness.shapes import Case, Counts
from tests.kernel.driving import PROJECT, Kernel, Log, case, order, unpack

CHEATS = PROJECT / "tests" / "cheats"
COUNTS = Counts(3, 20, 2)
NEED_A_GPU = {"side_stream", "busy_card", "slow_memory"}
LARGER = {"busy_process": "c05", "slow_allocator": "c05"}  # whose calls are long enough to be held up

# What each has to be caught by; where there are two, it depends on the machine which comes first.
KINDS = {
    "busy_card": "helpers",
    "busy_process": "helpers",
    "by_address": "timed_output",
    "by_content": "remembered_output",
    "by_object": "timed_output",
    "by_shape": "timed_output",
    "early_return": "timed_output",
    "every_other_call": "timed_output|clock",
    "filled_later": "changed_output|timed_output|helpers",
    "lazy_tensor": "lazy_output",
    "side_stream": "changed_output|timed_output",
    "slow_allocator": "process_settings",
    "slow_functions": "replaced",
    "slow_hooks": "baseline_touched",
    "slow_memory": "emptied_memory",
    "slow_module": "replaced",
    "slow_profile": "process_settings",
    "slow_threads": "helpers",
    "checked_seeds": "timed_output",
    "first_rows": "timed_output",
    "input_in_place": "input_changed",
    "input_memory": "input_changed|shared_output",
    "last_token": "timed_output",
    "mask_in_place": "input_changed",
    "reference_by_collector": "timed_output",
    "reference_by_frames": "timed_output",
    "reference_by_hook": "baseline_touched",
    "reused_buffer": "shared_output",
    "two_buffers": "shared_output",
    "weights_in_place": "weights_changed",
    "forged_events": "forged_event",
    "forged_replies": "forged_reply",
    "harness_files": "harness_files",
    "harness_memory": "altered_times",
    "parents_memory": "reached_out",
    "patched_clock_of_harness": "replaced",
    "patched_comparator": "replaced",
    "patched_elapsed_time": "replaced",
    "patched_gate": "replaced",
    "patched_inputs": "replaced",
    "patched_randn": "replaced",
    "patched_synchronize": "replaced",
    "patched_timer": "replaced",
    "probes_the_desk": "timed_output",
    "probes_the_stack": "timed_output",
    # by another hand
    "a_child_speaks": "forged_event",
    "another_linear": "replaced",
    "answers_at_the_door": "lazy_output",
    "by_depth": "timed_output",
    "by_system_call": "reached_out",
    "corner_only": "timed_output",
    "counts_no_more": "timed_output",
    "lru_on_pointer": "timed_output",
    "one_weight": "weights_changed",
    "other_code": "replaced",
    "ring_of_seven": "shared_output",
    "through_data": "input_changed",
}
HONEST = sorted(path.stem for path in (CHEATS / "honest").glob("*.py") if path.stem != "__init__")
SLOW = {"compiled"}  # ten seconds of compilation
HAS_GPU = torch.cuda.is_available()
# Given away by how long calls take, or by work beside them: one after the other, and nothing else meanwhile.
ALONE = {name for name, kinds in KINDS.items() if re.fullmatch("remembered_output|helpers", kinds)}
RUNNABLE = [name for name in KINDS if name not in NEED_A_GPU or HAS_GPU]
TOGETHER = [name for name in KINDS if name not in ALONE]
# Of each kind the first, so that a quick run finds a wire that no longer holds.
FIRST = list({KINDS[name]: name for name in reversed(TOGETHER) if name in RUNNABLE}.values())
FURTHER = [name for name in TOGETHER if name not in FIRST]


def entry(name: str) -> Case:
    """The case of an entry."""
    return case(route=name, shape=LARGER.get(name, "t05"), protocol="strict", counts=COUNTS)


def run(folder: Path, names: list[str], devices: int = 2) -> Log:
    """One run of some entries, with as much time as a busy machine may need."""
    kernel = unpack(folder)
    shutil.copytree(CHEATS, kernel.root / "cheats", ignore=shutil.ignore_patterns("__pycache__"))
    return carry_out(kernel, names, devices)


def carry_out(kernel: Kernel, names: list[str], devices: int = 2) -> Log:
    """Run entries of a kernel that has them."""
    asked = "any" if HAS_GPU else "cpu"
    cases = [entry(name) for name in names]
    terms = {"model": "cheats", "devices": devices, "case_timeout_s": 400.0, "asked_accelerator": asked}
    return kernel.run(order(*cases, **terms), patience_s=900)


def check_caught(log: Log, name: str) -> None:
    """The entry is disqualified for what it did, in words, and has no times."""
    done = log.done[entry(name).id]
    assert done.status == "disqualified", (done.status, done.error_kind, done.error, done.flags)
    assert re.fullmatch(KINDS[name], done.error_kind), (done.error_kind, done.error)
    assert done.error and done.samples == 0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """One run over a cheat of each kind and all honest entries."""
    return run(tmp_path_factory.mktemp("cheats"), [*FIRST, *(name for name in HONEST if name not in SLOW)])


@pytest.fixture(scope="module")
def further_log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """One run over the other cheats that this machine can run."""
    return run(tmp_path_factory.mktemp("further"), [name for name in FURTHER if name in RUNNABLE])


@pytest.fixture(scope="module")
def timed_log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """One run over those that need the machine for themselves, one after the other."""
    names = [name for name in RUNNABLE if name in ALONE]
    return run(tmp_path_factory.mktemp("timed"), names, devices=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(ALONE))
def test_a_cheat_that_works_beside_or_remembers_is_disqualified(
    name: str, request: pytest.FixtureRequest
) -> None:
    """Whoever works while the baseline is called, or knows inputs again, is disqualified."""
    if name not in RUNNABLE:
        pytest.skip("needs a GPU")
    check_caught(request.getfixturevalue("timed_log"), name)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FIRST)
def test_a_cheat_is_disqualified(name: str, log: Log) -> None:
    """Each kind of winning without being faster has the status `disqualified` and a reason."""
    check_caught(log, name)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FURTHER)
def test_a_further_cheat_is_disqualified(name: str, request: pytest.FixtureRequest) -> None:
    """Each other way to win without being faster has them, too."""
    if name not in RUNNABLE:
        pytest.skip("needs a GPU")
    check_caught(request.getfixturevalue("further_log"), name)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name in HONEST if name not in SLOW])
def test_an_honest_entry_passes(name: str, log: Log) -> None:
    """What is unusual and no trick passes."""
    done = log.done[entry(name).id]
    assert done.status == "passed", (done.status, done.error_kind, done.error, done.flags)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(SLOW))
def test_an_honest_entry_that_compiles_passes(name: str, tmp_path: Path) -> None:
    """Torch's own replacements inside of torch, when it compiles, trip no wire."""
    done = run(tmp_path, [name]).done[entry(name).id]
    assert done.status == "passed", (done.status, done.error_kind, done.error)


def test_every_entry_says_in_a_sentence_what_it_does() -> None:
    """Each file's docstring is one sentence, and each cheat has a kind that it must be caught by."""
    files = [path for path in CHEATS.glob("*/*.py") if path.stem != "__init__"]
    for path in files:
        told = ast.get_docstring(ast.parse(path.read_text("utf-8")))
        assert told and told.endswith(".") and "\n\n" not in told, path
    assert {path.stem for path in files} == {*KINDS, *HONEST}
    assert len(KINDS) >= 24 and len(HONEST) >= 12


# --- under other names ------------------------------------------------------------------------------------

KEPT = {"UserOptimizedTransformer", "copy_model_weights", "forward", "route_ran"}


def renamed(text: str) -> str:
    """The entry with every name of its own replaced: classes, functions, attributes, module variables."""
    tree = ast.parse(text)
    own = {node.name for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("self.") and is_stored(node):
            own.add(node.attr)
        if isinstance(node, ast.Name) and is_stored(node):
            own.add(node.id)
    own = {name for name in own if not name.startswith("__")} - KEPT
    places = {name: f"entry{number}" for number, name in enumerate(sorted(own))}
    body = ast.unparse(tree).partition("\n")[2]  # the docstring tells what it is
    return re.sub(r"\b(?<!\.)(?:self\.)?\w+", lambda word: _renamed_word(word[0], places), body)


def is_stored(node: ast.Attribute | ast.Name) -> bool:
    """Whether something is assigned to it here."""
    return isinstance(node.ctx, ast.Store)


def _renamed_word(word: str, places: dict[str, str]) -> str:
    prefix, name = ("self.", word[5:]) if word.startswith("self.") else ("", word)
    return prefix + places.get(name, name)


@pytest.fixture(scope="module")
def disguised(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """One run over all entries under other names."""
    kernel = unpack(tmp_path_factory.mktemp("disguised"))
    target = kernel.root / "cheats"
    shutil.copytree(CHEATS, target, ignore=shutil.ignore_patterns("__pycache__"))
    for path in target.glob("*/*.py"):
        if path.stem != "__init__":
            path.write_text(renamed(path.read_text("utf-8")), "utf-8")
    return carry_out(kernel, [name for name in RUNNABLE if name not in ALONE])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TOGETHER)
def test_a_cheat_is_caught_under_other_names(name: str, request: pytest.FixtureRequest) -> None:
    """Names play no part: with all of its own replaced, an entry is caught by the same wire."""
    if name not in RUNNABLE:
        pytest.skip("needs a GPU")
    check_caught(request.getfixturevalue("disguised"), name)
