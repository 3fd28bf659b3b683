"""From the user's words to cases."""

from __future__ import annotations

import pytest

from builder import declared
from builder.accelerators import choose_backend, default_accelerator, lookup
from builder.declared import levers
from builder.errors import UsageError
from builder.spec import Selection, plan
from harness.shapes import Counts


def keys(selection: Selection) -> list[str]:
    """Return the shapes of a selection's cases."""
    return [case.shape.key for case in plan(selection)]


def test_the_official_suite_has_fifteen_rows() -> None:
    """All 14 shapes in float32, and shape 14 in float16 as the fifteenth."""
    cases = plan(Selection("official", routes=("sdpa",)))
    assert [case.dtype for case in cases] == ["float32"] * 14 + ["float16"]
    assert cases[-1].shape.key == "s14"
    assert {case.protocol for case in cases} == {"official"}


def test_shapes_are_picked_by_number_range_and_key() -> None:
    """`1-3,s07,12` names five shapes, in this order."""
    assert keys(Selection("official", shapes="1-3,s07,12")) == ["s01", "s02", "s03", "s07", "s12"]


def test_the_smoke_suite_compiles_once() -> None:
    """Two routes on every tiny shape, one compiled case, one in chunks; a route asked for is the only one."""
    cases = plan(Selection("smoke"))
    assert len(cases) == 12
    assert [case.route for case in cases].count("fast") == 1
    assert [case.levers for case in cases if case.levers] == [{"LEVER_CHUNK": "3"}]
    assert {case.route for case in plan(Selection("smoke", routes=("eager",)))} == {"eager"}
    assert len(plan(Selection("smoke", own_model=True))) == 5


def test_an_explicit_dtype_replaces_the_extra_row() -> None:
    """Asking for float16 gives 14 rows in float16 and no double of shape 14."""
    cases = plan(Selection("official", dtype="float16"))
    assert len(cases) == 14
    assert {case.dtype for case in cases} == {"float16"}


def test_other_counts_than_the_contests_are_named_short() -> None:
    """A case timed with fewer calls says so in its protocol and its id."""
    [case] = plan(Selection("official", shapes="8", routes=("sdpa",), repeats=3))
    assert case.protocol == "short"
    assert case.id.startswith("s08-sdpa-float32-short-")
    assert case.counts == Counts(20, 3, 3)


def test_levers_enter_the_id_with_and_without_their_prefix() -> None:
    """`QKV=separate` and `LEVER_QKV=separate` are the same lever, and not the same case as none."""
    [short] = plan(Selection("official", shapes="1", levers=("QKV=separate",)))
    [full] = plan(Selection("official", shapes="1", levers=("LEVER_QKV=separate",)))
    [none] = plan(Selection("official", shapes="1"))
    assert short.id == full.id != none.id
    assert short.levers == {"LEVER_QKV": "separate"}


def test_harness_arguments_make_another_case() -> None:
    """A case measured without TF32 has another id than one measured with it."""
    [plain] = plan(Selection("official", shapes="1"))
    [strict] = plan(Selection("official", shapes="1", harness_args="--no-allow-tf32"))
    assert plain.id != strict.id


def test_whole_keys_make_a_range_too() -> None:
    """`s02-s04` is `2-4`."""
    keys = [case.shape.key for case in plan(Selection("official", shapes="s02-s04", dtype="float32"))]
    assert keys == ["s02", "s03", "s04"]


def test_the_ablation_has_every_route_and_lever() -> None:
    """Each route that there is, and each lever under a route that it changes, on four shapes at most."""
    cases = plan(Selection("ablation"))
    assert {case.shape.key for case in cases} == {"s01", "s07", "s08", "s13"}
    assert {case.route for case in cases} == {route.name for route in declared.files()}
    assert {name for case in cases for name in case.levers} == {*levers()} - {"LEVER_ROUTE"}


def test_the_stress_suite_has_every_dtype_and_kind_of_input() -> None:
    """Hard inputs come in all three dtypes; its few calls name it `short`."""
    cases = plan(Selection("stress"))
    for inputs in ("small", "large", "offset", "outliers", "near_zero"):
        dtypes = {case.dtype for case in cases if case.shape.inputs == inputs}
        assert dtypes == {"float32", "float16", "bfloat16"}
    assert {case.protocol for case in cases} == {"short"}
    assert {case.shape.seq_len % 128 for case in cases} > {1, 31, 127, 129 % 128}


def test_a_users_model_is_not_run_by_our_routes() -> None:
    """The smoke suite's routes are ours; somebody's own model runs as it is."""
    cases = plan(Selection("smoke", own_model=True))
    assert {case.route for case in cases} == {"auto"}
    assert plan(Selection("smoke", routes=("mine",), own_model=True))[0].route == "mine"


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection("offical"), "there is no suite 'offical'"),
        (Selection("official", shapes="15"), "has no shape '15'"),
        (Selection("official", shapes="3-x"), "has no shape '3-x'"),
        (Selection("official", shapes="2-"), "has no shape '2-'"),
        (Selection("official", shapes="-2"), "has no shape '-2'"),
        (Selection("official", shapes="1-5-3"), "has no shape '1-5-3'"),
        (Selection("official", shapes="²-3"), "has no shape '²-3'"),
        (Selection("official", shapes="1-99999999999"), "has no shape '1-99999999999'"),
        (Selection("official", shapes="3-1"), "'3-1' goes backwards"),
        (Selection("official", shapes="1,,2"), "has no shape ''"),
        (Selection("official", routes=("fast5",)), "there is no route 'fast5'"),
        (Selection("official", dtype="fp16"), "there is no dtype 'fp16'"),
        (Selection("official", levers=("QKV",)), "is not NAME=VALUE"),
        (Selection("official", levers=("QVK=separate",)), "there is no lever 'LEVER_QVK'"),
        (Selection("official", levers=("A B=1",)), "is not NAME=VALUE"),
        (Selection("official", levers=("A=1;B=2",)), "is not NAME=VALUE"),
        (Selection("official", levers=("A=1\n",)), "is not NAME=VALUE"),
        (Selection("official", levers=("A=1", "LEVER_A=2")), "sets LEVER_A to '1' and to '2'"),
        (Selection("official", routes=("a b",), own_model=True), "'a b' is no name of a route"),
        (Selection("official", harness_args="--accuracy-trials 0"), "must be positive"),
        (Selection("official", harness_args="--atol nan"), "must be a number from 0 on"),
        (Selection("official", harness_args="--rtol inf"), "must be a number from 0 on"),
        (Selection("official", harness_args="--atoll 3"), "unrecognized arguments: --atoll 3"),
        (Selection("official", harness_args="--atol x"), "invalid float value: 'x'"),
        (Selection("official", harness_args="'"), "No closing quotation"),
    ],
)
def test_an_unknown_word_is_named(selection: Selection, message: str) -> None:
    """Each wrong word is a usage error that quotes the word."""
    with pytest.raises(UsageError) as caught:
        plan(selection)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("backend", "accelerator", "expected"),
    [
        (None, "", "local"),
        ("manual", "h200", "manual"),
        (None, "cpu", "local"),
        (None, "NvidiaTeslaT4", "kaggle"),
    ],
)
def test_the_backend_follows_from_the_accelerator(
    backend: str | None, accelerator: str, expected: str
) -> None:
    """The one asked for, else the owner of the accelerator's name, else local."""
    assert choose_backend(backend, accelerator) == expected


@pytest.mark.parametrize(
    ("backend", "accelerator", "message"),
    [
        ("local", "NvidiaTeslaT4", "belongs to kaggle"),
        (None, "nvidiaTeslaT4", "no service knows"),
        (None, "NvidiaTeslaT4x2", "no service knows"),
        (None, "NvidiaTeslaP100", "is retired"),
    ],
)
def test_a_contradiction_or_misspelling_is_refused(
    backend: str | None, accelerator: str, message: str
) -> None:
    """A name that a service would silently replace never leaves this machine."""
    with pytest.raises(UsageError) as caught:
        choose_backend(backend, accelerator)
    assert message in caught.value.message
    assert caught.value.hint


def test_a_misspelt_accelerator_gets_the_nearest_good_name() -> None:
    """The hint names what was probably meant."""
    with pytest.raises(UsageError) as caught:
        lookup("nvidiateslat4")
    assert "did you mean NvidiaTeslaT4?" in caught.value.hint


def test_only_the_local_backend_takes_whatever_is_there() -> None:
    """A kernel carried elsewhere is meant for a GPU unless somebody says cpu."""
    assert default_accelerator("local") == ""
    assert default_accelerator("manual") == "any"
