"""The pictures of a report: what is drawn of which rows, and what is not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from builder.reports.stages import REST, stages_of
from harness.events import Profile, Work
from tests.unit.measured_logs import S01, S02, Measured, reading_of
from tests.unit.report_pages import ODD, charts, page_of
from tests.unit.written_logs import GATE


def test_a_device_of_unknown_peaks_has_no_floor(tmp_path: Path) -> None:
    """The page says so, and draws none; a known one has all three classes and what was measured."""
    odd = reading_of(tmp_path / "odd", Measured(S01), device=ODD)
    known = charts(reading_of(tmp_path / "known", Measured(S01)))
    assert "floor" not in charts(odd)
    assert "No floor is known for Radeon Pro." in page_of(odd)[0]
    assert len(known["floor"].spec["data"]["values"]) == 5


def test_a_time_below_every_floor_is_called_out(tmp_path: Path) -> None:
    """What no kernel can do is named beside the floors; what is merely fast is not."""
    text, _ = page_of(reading_of(tmp_path / "log", Measured(S01, candidate_us=50.0), Measured(S02)))
    assert re.search(r'hardware allows.*?<a href="#row-1">s01</a>\.</p>', text, re.DOTALL)


def test_both_branches_of_the_rule_are_drawn(tmp_path: Path) -> None:
    """The absolute tolerance is level, the relative one rises, and they meet where they are equal."""
    flags = {"worst_reference": "0.5", "worst_output": "0.504"}
    spec = charts(reading_of(tmp_path / "log", Measured(S01, flags=flags)))["worst"].spec
    lines = spec["layer"][0]["data"]["values"]
    assert {point["absolute"] for point in lines} == {GATE.atol}
    assert any(point["relative"] == pytest.approx(GATE.atol) for point in lines)
    assert spec["data"]["values"][0]["e"] == pytest.approx(0.004)


def test_ablation_needs_two_ways_of_one_size(tmp_path: Path) -> None:
    """Two routes on one shape are an ablation; two shapes on one route are none."""
    routes = [Measured(S01), Measured(replace(S01, route="eager"))]
    assert "ablation" in charts(reading_of(tmp_path / "a", *routes))
    assert "ablation" not in charts(reading_of(tmp_path / "b", Measured(S01), Measured(S02)))


def test_stages_add_up_and_say_what_they_could_buy() -> None:
    """Half of the work in products could buy 2 times at most; what no kernel accounts for is the rest."""
    works = (Work("sm90_gemm_f16", 4, 500), Work("flash_fwd", 2, 300), Work("odd name", 1, 100))
    found = {stage.name: stage for stage in stages_of(Profile("case", "candidate", 1, 1000, works))}
    assert sum(stage.share for stage in found.values()) == pytest.approx(1)
    assert (found["products"].most, found["attention"].share) == (2.0, 0.3)
    assert found[REST].share == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("nvjet_sm90_tss_128x64_NNT", "products"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64>", "products"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", "attention"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::baddbmm", "products"),
        ("void softmax_warp_forward<float>", "softmax"),
        ("vectorized_layer_norm_kernel<float>", "layer norm"),
        ("Memcpy DtoD (Device -> Device)", "copies and fills"),
        ("void at::native::vectorized_elementwise_kernel<4>", "elementwise"),
        ("aten::masked_fill_", "elementwise"),
        ("vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", "copies and fills"),
        ("something new", REST),
    ],
)
def test_a_kernel_s_name_tells_its_stage(name: str, stage: str) -> None:
    """The names that torch's profiler gives on a GPU and on a CPU find their stages."""
    [found] = stages_of(Profile("case", "candidate", 1, 100, (Work(name, 1, 100),)))
    assert found.name == stage


def test_stages_of_a_profile_are_drawn_and_written(tmp_path: Path) -> None:
    """A run with a profile has its stages as a picture and as figures; without one the page says so."""
    work = (Work("ampere_sgemm", 4, 750), Work("<b>softmax", 1, 250))
    text, page = page_of(reading_of(tmp_path / "a", Measured(S01, work=work)))
    shares = {datum["stage"]: datum["share"] for datum in page.specs["stages"]["data"]["values"]}
    assert shares == {"products": 0.75, "softmax": 0.25}
    colours = page.specs["stages"]["layer"][0]["encoding"]["color"]["scale"]
    assert colours == {"domain": ["products", "softmax"], "range": ["var(--hue2)", "var(--hue3)"]}
    assert "4.00×" in text and "No run holds a profile" not in text
    assert "No run holds a profile" in page_of(reading_of(tmp_path / "b", Measured(S01)))[0]


def test_clocks_are_drawn_where_the_card_was_seen(tmp_path: Path) -> None:
    """A reading of the clocks is a mark; one that was not seen is none."""
    seen = {"clocks": "moved 1980>1755 MHz, 1700 to 1980", "throttle": "sw_power_cap 3/4"}
    run = reading_of(tmp_path / "a", Measured(S01, flags=seen), Measured(S02, flags={"clocks": "unseen"}))
    [datum] = charts(run)["clocks"].spec["data"]["values"]
    assert (datum["low"], datum["last"], datum["clock"]) == (1700, 1755, "moved")
    assert "sw_power_cap 3/4" in page_of(run)[0]


def test_a_long_picture_is_cut_and_says_so(tmp_path: Path) -> None:
    """Of 400 cases 300 are drawn, all are in the table, and samples that have no room are left out."""
    cases = [Measured(replace(S01, route=f"r{number}"), None, 1000.0) for number in range(400)]
    run = reading_of(tmp_path / "log", *cases)
    text, page = page_of(run)
    assert len(page.rows) == 400
    assert len(page.specs["memory"]["data"]["values"]) == 300
    assert "The first 300 of 400; the table has all." in text
