"""`ferry demo`: the quick scenes really played, and a stage from which nothing of the user's is in reach."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder import demo
from builder.demo import Scene
from builder.demo.loopback import TOKEN, Loopback
from builder.demo.stage import Act, Stage, python
from builder.errors import BugError, UsageError
from tests.command import run_ferry


class Failing:
    """A scene in which a program ends otherwise than it should."""

    PLACE, MORAL, NEEDS_TORCH = 1, "None.", False

    def play(self, stage: Stage) -> Iterator[Act]:
        """Run what is not there."""
        yield stage.script("nothing.py")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage in the environment of somebody with settings, before a service that nobody asks."""
    for name in ("KAGGLE_KEY", "KAGGLE_CONFIG_DIR", "FERRY_SUITE", "LEVER_X", "NO_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "the user's")
    with Loopback(tmp_path / "service") as service:
        yield Stage(tmp_path, service)


def test_recorded_noise_is_a_win_to_medians_and_none_to_ferry() -> None:
    """The envelope holds what both said, word for word, with their exit codes."""
    done = run_ferry("demo", "noise", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["counts"] == {"played": 1, "skipped": 0}
    usual, ferry = document["rows"][0]["acts"]
    assert (usual["by"], usual["exit_code"]) == ("usual", 0)
    assert usual["said"] == "old 2.82 ms, new 1.57 ms: 1.79x as fast\n"
    assert (ferry["by"], ferry["exit_code"]) == ("ferry", 8)
    assert "cannot tell: geomean 1.792×" in ferry["said"]


def test_scene_without_its_torch_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a Python that has no torch the scene is left out, with the way to get it: exit 0."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{python()}" -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("FERRY_PYTHON", str(bare))
    done = run_ferry("demo", "cached-output")
    assert done.returncode == 0
    assert "it needs torch" in done.stderr
    assert "'gpuferry[torch]'" in done.stderr
    assert "$" not in done.stderr


def test_scenes_are_played_in_the_order_of_their_story() -> None:
    """Each is found by its name, and an unknown name lists those there are."""
    order = ["refused-push", "wrong-gpu", "stale-status", "cached-output", "noise"]
    assert [scene.name for scene in demo.programme()] == order
    assert [scene.title for scene in demo.programme("noise")] == ["Noise that looks like a win"]
    with pytest.raises(UsageError) as unknown:
        demo.programme("nosie")
    assert all(name in unknown.value.hint for name in order)


def test_nothing_of_the_users_is_in_reach_of_a_command(stage: Stage, tmp_path: Path) -> None:
    """Credentials, settings, home and proxies of a stage are its own."""
    (tmp_path / "tells.py").write_text("import json, os\nprint(json.dumps(dict(os.environ)))\n")
    found = json.loads(stage.script("tells.py").said)
    assert "the user's" not in found.values()
    assert (found["KAGGLE_API_TOKEN"], found["KAGGLE_API_ENVIRONMENT"]) == (TOKEN, "LOCALHOST")
    assert found["HTTP_PROXY"] == found["HTTPS_PROXY"] == stage.service.address


def test_cut_line_ends_in_dots(stage: Stage, tmp_path: Path) -> None:
    """Of what a command said only what matters is told, and where a line goes on."""
    (tmp_path / "says.py").write_text("print('pushed. See there')\nprint('else')\n")
    assert stage.script("says.py", r"^pushed\.").told == ("pushed. …",)


def test_scene_that_comes_out_otherwise_is_a_bug() -> None:
    """The command is named with its exit code and all that it said."""
    acts = Scene("failing", "It fails", Failing()).acts()
    assert next(acts).exit_code == 2
    with pytest.raises(
        BugError, match=r"scene failing: `python nothing\.py` ended with 2, not 0:\n.*No such"
    ):
        next(acts)
