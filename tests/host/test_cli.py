"""The command line: help, exit codes, configuration and the JSON envelope; no kernel is run here."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from builder import backends, runs
from builder.cli import ferry
from builder.spec import RunSpec
from tests.command import ROOT, run_ferry

COMMANDS = ferry.list_commands(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    """`ferry X --help` says what X does and shows it being typed."""
    done = run_ferry(name, "--help")
    assert done.returncode == 0
    assert f"ferry {name}" in done.stdout.partition("Example")[2]


def test_help_lists_every_command_with_its_short_help() -> None:
    """`ferry --help` names each command, and is the same text with and without click."""
    done = run_ferry("--help")
    assert done.stdout == ferry.get_help(click.Context(ferry)) + "\n"
    listed = {line.split()[0] for line in done.stdout.partition("Commands:")[2].splitlines() if line.strip()}
    assert set(COMMANDS) <= listed


def test_help_and_listings_import_nothing_heavy() -> None:
    """Neither torch, kaggle, rich nor requests is imported to show help or names."""
    script = (
        "import sys\nfrom builder.cli import ferry\n"
        "for words in (['--help'], ['run', '--help'], ['suites'], ['routes'], ['backends']):\n"
        "    ferry.main(words, standalone_mode=False)\n"
        "heavy = {'torch', 'kaggle', 'rich', 'requests', 'nbformat', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu"], "No such command 'rnu'"),
        (["run", "--suite", "offical"], "there is no suite 'offical'"),
        (["run", "--backend", "slrum"], "there is no backend 'slrum'"),
        (["run", "--accelerator", "nvidiaTeslaT4"], "did you mean NvidiaTeslaT4?"),
        (["run", "--timeout", "soon"], "'soon' is no duration"),
        (["run", "--model", "nothing.py"], "there is nothing at nothing.py"),
        (["build"], "Missing option '-o'"),
        (["pull", "2026"], "no run in"),
        (["parse", "no-such.log"], "no run in"),
        (["parse", "no-such.log", "other.log"], "there is no log at no-such.log"),
    ],
)
def test_a_wrong_word_is_one_sentence_and_exit_2(arguments: list[str], said: str, tmp_path: Path) -> None:
    """People see what is wrong and no traceback."""
    done = run_ferry(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_in_json_is_an_envelope() -> None:
    """With `--json` the error is data, on stdout, with the same exit code."""
    done = run_ferry("pull", "2026", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 2
    assert document["schema"] == "ferry/1"
    assert "no run in" in document["error"]["message"]
    assert document["error"]["hint"]


def test_a_listing_in_json_is_an_envelope() -> None:
    """`ferry backends --json` is one document with the same names."""
    document = json.loads(run_ferry("backends", "--json").stdout)
    assert [entry["backend"] for entry in document["backends"]] == backends.names()
    assert all(entry["about"] for entry in document["backends"])


def test_the_version_of_sources_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ferry --version` in a checkout is a sentence, and exit 0."""

    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", unknown)
    done = CliRunner().invoke(ferry, ["--version"])
    assert (done.exit_code, done.output) == (0, "ferry from its sources, not installed\n")


def test_both_entry_points_are_the_same_program() -> None:
    """`ferry --version` and `python -m builder --version` agree."""
    script = str(Path(sys.executable).with_name("ferry"))
    installed = Path(script).exists()
    command = [script] if installed else [sys.executable, "-c", "from builder.__main__ import main; main()"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout == run_ferry("--help").stdout


# --- configuration ----------------------------------------------------------------------------------------


def built_spec(folder: Path, *arguments: str, **environment: str) -> RunSpec:
    """Push to backend `manual` in `folder` and return the spec that was written."""
    command = [sys.executable, "-m", "builder", "push", "--backend", "manual", "--no-rehearsal", *arguments]
    inherited = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folder, check=True, env=inherited | environment, capture_output=True)
    [found] = (folder / "runs").glob("2*")
    return runs.Run(found).spec


def test_ferry_toml_sets_what_no_flag_says(tmp_path: Path) -> None:
    """A project's file is the default of its folder."""
    (tmp_path / "ferry.toml").write_text(
        'suite = "official"\nshapes = "2"\nroute = ["eager"]\ntimeout = "9m"\n'
    )
    spec = built_spec(tmp_path)
    assert [case.shape.key for case in spec.cases] == ["s02"]
    assert spec.timeout_s == 540
    assert spec.accelerator == "any"


def test_environment_beats_file_and_flag_beats_environment(tmp_path: Path) -> None:
    """The order is flag, `FERRY_*`, ferry.toml, user's file, default."""
    (tmp_path / "ferry.toml").write_text('suite = "official"\nshapes = "2"\nname = "file"\n')
    config = tmp_path / "home" / ".config" / "gpuferry"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('name = "user"\nroute = ["eager"]\ndtype = "float16"\n')
    spec = built_spec(tmp_path, "--shapes", "3", FERRY_SHAPES="4", FERRY_NAME="environment")
    assert [case.shape.key for case in spec.cases] == ["s03"]
    assert spec.name == "environment"
    assert {(case.route, case.dtype) for case in spec.cases} == {("eager", "float16")}


def test_options_are_named_everywhere_as_on_the_command_line(tmp_path: Path) -> None:
    """`--route` is `route` in a file and FERRY_ROUTE; what only `ferry run` takes is in the file too."""
    (tmp_path / "ferry.toml").write_text(
        'as = "script"\nallow-accelerator-mismatch = true\nroute = "sdpa"\nshapes = 1\nwait = "9m"\n'
    )
    spec = built_spec(tmp_path, FERRY_ROUTE="eager sdpa")
    assert (spec.form, spec.allow_mismatch) == ("script", True)
    assert [case.route for case in spec.cases] == ["eager", "sdpa"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("siute = 'smoke'", "sets 'siute', which is no option"),
        ("suite = ", "cannot be read"),
        ("json = true", "sets 'json', which is no option"),
        ("repeats = true", "sets repeats to True"),
        ("model = [1]", "sets model to [1]"),
        ("levers = {A = 1}", "sets levers to"),
        ("detach = 'yes'", "sets detach to 'yes'"),
        ("repeats = 2.7", "ferry.toml, or your own config.toml, sets it"),
    ],
)
def test_a_wrong_file_is_named(content: str, said: str, tmp_path: Path) -> None:
    """A misspelt key or broken TOML says which file it is in."""
    (tmp_path / "ferry.toml").write_text(content)
    done = run_ferry("run", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "ferry.toml" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_lever_that_stays_behind_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lever set in the shell and not sent is named; one that is sent is not."""
    monkeypatch.setenv("LEVER_QKV", "separate")
    monkeypatch.setenv("LEVER_RESIDUAL", "new")
    done = run_ferry("build", "-o", str(tmp_path / "kernel"), "--levers", "QKV=separate")
    assert done.returncode == 0
    assert "LEVER_RESIDUAL is set in this shell and not sent" in done.stderr
    assert "LEVER_QKV is set" not in done.stderr


def test_init_lays_down_a_model_that_builds(tmp_path: Path) -> None:
    """`ferry init` and `ferry build` need nothing in between, and init overwrites nothing."""
    told = json.loads(run_ferry("init", "mine", "--json", cwd=tmp_path).stdout)
    assert told["files"] == ["mine/ferry.toml", "mine/my_model.py"]
    done = run_ferry("build", "-o", "kernel", cwd=tmp_path / "mine")
    assert done.returncode == 0, done.stderr
    assert "UserOptimizedTransformer" in (tmp_path / "mine" / "kernel" / "kernel.py").read_text()
    again = run_ferry("init", "mine", cwd=tmp_path)
    assert again.returncode == 2
    assert "there already" in again.stderr
