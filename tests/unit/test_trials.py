"""What the gate tries for a case, and what its figures come to."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from harness.channel import Figures
from harness.shapes import ORACLE_S, SHAPES, TIMING_SEED_OFFSET, Case
from harness.trials import Trial, flags_of, gate_of, plan, verdict

GIB = 2**30
CASE = Case(SHAPES["t01"])
GIANT = Case(SHAPES["s14"])
FINE = Figures(True, 0, 100, 0.001, 0.1, 0.5)


def test_one_seed_is_the_contest_s() -> None:
    """Without more seeds the weights and the five inputs are the contest's; the first is recomputed."""
    trials = plan(CASE, 1, 0)
    assert [(trial.weight_seed, trial.input_seed) for trial in trials] == [(1234, 1234 + i) for i in range(5)]
    assert [trial.recompute for trial in trials] == [True, False, False, False, False]
    assert not any(trial.oracle_s or trial.truncated for trial in trials)


def test_more_seeds_are_drawn_anew_each_time() -> None:
    """Others than the contest's differ from run to run, come before it, and repeat nothing."""
    first, second = plan(CASE, 3, 0), plan(CASE, 3, 0)
    assert [trial.weight_seed for trial in first[10:]] == [1234] * 5
    assert {trial.weight_seed for trial in first} & {trial.weight_seed for trial in second} == {1234}
    inputs = [trial.input_seed for trial in first]
    assert len(set(inputs)) == len(inputs) == 15


def test_no_seed_is_the_timing_s() -> None:
    """A draw of the timing's input, or of one that is taken, is drawn again."""

    class Loaded(random.Random):
        draws = iter((1234 + TIMING_SEED_OFFSET, 1236, 8, 8, 9, 10, 11, 12, 13))

        def randrange(self, *_: object) -> int:
            return next(self.draws)

    trials = plan(CASE, 2, 0, Loaded())
    assert {trial.weight_seed for trial in trials} == {8, 1234}
    assert [trial.input_seed for trial in trials[:5]] == [9, 10, 11, 12, 13]


def test_shape_14_goes_by_the_oracle_on_an_h200() -> None:
    """One whole input a weight seed; before that the baseline itself, cut to a length that fits."""
    short, *whole = plan(GIANT, 3, 139 * GIB)
    assert [(trial.oracle_s, trial.truncated) for trial in whole] == [(ORACLE_S / 3, False)] * 3
    assert whole[-1].weight_seed == whole[-1].input_seed == 1234
    shape = short.case.shape
    assert (short.truncated, short.oracle_s, shape.batch, shape.d_model) == (True, 0.0, 1, 1024)
    assert 20_000 < shape.seq_len < 30_000
    assert shape.seq_len % 128 == 100_000 % 128
    assert shape.baseline_bytes(1) < 0.8 * 139 * GIB


@pytest.mark.parametrize("memory", [1, 5_000, 10**6, 4 * 10**6, 10**9, 10**12])
@pytest.mark.parametrize("key", ["s14", "c14", "s13", "t02"])
def test_the_cut_length_fits_wherever_any_does(key: str, memory: int) -> None:
    """It is at least one token, never more than the whole, and the baseline fits if it can at all."""
    shape = SHAPES[key]
    short = shape.truncated(memory)
    assert 1 <= short.seq_len <= shape.seq_len
    assert short.has_baseline(memory) or short.seq_len == 1


def test_the_other_official_shapes_go_by_the_baseline_on_a_t4() -> None:
    """On 15 GiB only shape 14 needs the oracle."""
    others = [f"s{number:02d}" for number in range(1, 14)]
    assert all(SHAPES[key].has_baseline(15 * GIB) for key in others)
    assert not SHAPES["s14"].has_baseline(15 * GIB)


def test_the_worst_element_keeps_its_place_and_seeds() -> None:
    """Index, values and seeds are of the largest share; the coverage is of all outputs together."""
    bad = replace(
        FINE, gate_share=1.5, worst_index=(1, 2, 3), worst_reference=1.0, worst_output=2.0, failed_dims=(3,)
    )
    half = replace(FINE, total_elements=50, coverage=0.5)
    tried = [(Trial(CASE, 7, 70), FINE), (Trial(CASE, 8, 80), bad), (Trial(CASE, 9, 90), half)]
    gate = gate_of(tried)
    assert (gate.worst_index, gate.worst_reference, gate.worst_output) == ((1, 2, 3), 1.0, 2.0)
    assert (gate.worst_seeds, gate.failed_dims) == ((8, 80), (3,))
    assert (gate.total_elements, gate.coverage) == (250, 250 / 300)
    assert gate.weight_seeds == (9, 8, 7)


def test_what_was_cut_is_in_the_flags() -> None:
    """The cut length and its share, the one trial, the sequences checked, and the dtype's own share."""
    short = replace(GIANT, shape=replace(GIANT.shape, batch=1, seq_len=2000))
    tried = [
        (Trial(short, 1, 1, truncated=True, recompute=True), replace(FINE, dtype_share=0.25)),
        (Trial(GIANT, 1, 1, oracle_s=9.0), replace(FINE, coverage=0.25, reference="oracle")),
    ]
    assert flags_of(GIANT, tried) == {
        "truncated_s": "2000",
        "truncated_share": "0.5",
        "dtype_share": "0.25",
        "accuracy_trials": "1",
        "oracle_sequences": "8 of 32",
    }
    assert verdict(GIANT, tried) == ""


def test_the_verdict_blames_the_dtype_where_the_baseline_fails_too() -> None:
    """A dtype in which the baseline misses its own budget is named, with by how much."""
    bad = replace(FINE, passed=False, failed_elements=3)
    case = replace(CASE, dtype="bfloat16")
    assert verdict(case, [(Trial(case, 1, 1), bad)]) == "3 of 100 elements are outside the tolerances"
    words = verdict(case, [(Trial(case, 1, 1), replace(bad, dtype_share=3.6))])
    assert "bfloat16 cannot hold them here: the baseline itself" in words
    assert "3.6 times its budget" in words
    short = Trial(replace(case, shape=replace(case.shape, seq_len=9)), 1, 1, truncated=True)
    assert verdict(case, [(short, bad)]).startswith("cut to a length of 9, against the baseline itself, 3 of")
