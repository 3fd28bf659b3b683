"""The command that `ferry show` prints makes the same spec again."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.cli._options import make_spec
from builder.cli.push import command as push_command
from builder.errors import UsageError
from builder.repeating import command_for, command_of, line_of
from builder.runs import Run
from builder.spec import RunSpec
from harness.shapes import SUITES
from tests.command import ROOT


def spec_of(words: list[str]) -> RunSpec:
    """The spec that `ferry push` with these words would send."""
    options = dict(push_command.make_context("push", list(words)).params)
    for own in ("no_rehearsal", "wait_for_slot", "as_json"):
        del options[own]
    return make_spec(**options)


def again(spec: RunSpec) -> RunSpec:
    """The spec of the command that is printed for a spec, as a shell would read it."""
    words = shlex.split(line_of(command_of(spec)))
    assert words[:2] == ["ferry", "push"]
    return spec_of(words[2:])


MODEL = ROOT / "tests" / "models" / "one_file.py"


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--protocol", "strict", "--target-ci", "1%", "--seeds", "3"],
        ["--route", "sdpa", "--levers", "QKV=separate", "--levers", "LEVER_CHUNK=a b'c\"$x"],
        ["--dtype", "float16", "--route", "sdpa", "--route", "eager"],
        ["--dtype", "float32", "--warmup", "0", "--repeats", "7", "--rounds", "1"],
        [
            "--harness-args=--no-allow-tf32 --seed 7",
            "--name",
            "it's a 'name' — with\nlines",
            "--as",
            "script",
        ],
        ["--model", str(MODEL), "--route", "mine", "--levers", "ANY=1"],
        [
            "--backend",
            "manual",
            "--accelerator",
            "h200 sxm",
            "--allow-accelerator-mismatch",
            "--devices",
            "1",
        ],
        ["--accelerator", "NvidiaTeslaT4", "--timeout", "1.5h", "--case-timeout", "90s", "--internet"],
        ["--profile", "--device-packages", "einops", "--device-packages", "flash_attn"],
        ["--harness", str(ROOT / "tests" / "harnesses" / "independent.py")],
    ],
)
def test_the_printed_command_makes_the_same_spec(suite: str, more: list[str]) -> None:
    """Whatever options a run was asked for with, the command reads back to its spec."""
    spec = spec_of(["--suite", suite, *more])
    assert again(spec) == spec


@pytest.mark.parametrize("shapes", ["2", "14,1", "8-13,1"])
def test_shapes_keep_their_order(shapes: str) -> None:
    """A choice of shapes is repeated as it was made."""
    spec = spec_of(["--suite", "official", "--shapes", shapes])
    assert [case.shape.key for case in again(spec).cases] == [case.shape.key for case in spec.cases]


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    st.floats(0, 1e6, allow_subnormal=False),
    st.floats(0, 0.99),
)
def test_any_name_and_number_comes_back(name: str, seconds: float, share: float) -> None:
    """Quoting and digits lose nothing."""
    plain = spec_of(["--suite", "smoke", "--protocol", "strict"])
    spec = replace(plain, name=name, timeout_s=round(seconds, 3), target_ci=share)
    assert again(spec) == spec


def test_each_case_of_a_run_has_a_command_of_its_own() -> None:
    """A case can be asked for alone, or with the suite's extra rows of its shape and route."""
    for suite in SUITES:
        spec = spec_of(["--suite", suite])
        for case in spec.cases:
            made = spec_of(command_for(case, spec)[2:])
            assert case in made.cases
            assert {(other.shape, other.route) for other in made.cases} == {(case.shape, case.route)}
            assert replace(made, cases=spec.cases) == spec


def test_published_runs_have_a_command_or_say_that_the_kernel_has_the_cases() -> None:
    """A run whose suite has changed since is repeated by its stored kernel."""
    for path in sorted((ROOT / "runs" / "published").glob("2*")):
        spec = Run(Path(path)).spec
        try:
            made = again(spec)
        except UsageError as problem:
            assert f"ferry rerun {spec.run_id}" in problem.hint
        else:
            assert made.cases == spec.cases
