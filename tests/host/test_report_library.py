"""The charts' library: bundled from the installed package, kept for the next report, asked for."""

from __future__ import annotations

import importlib.metadata

import pytest

from builder.errors import UsageError
from builder.reports import bundle_js
from tests.command import run_ferry


def test_what_is_kept_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is bundled once, and a second report takes it from the user's cache."""
    makes = iter(["first", "second"])
    monkeypatch.setattr(bundle_js, "_bundled", lambda: next(makes))
    assert [bundle_js.vega(), bundle_js.vega()] == ["first", "first"]


def test_a_cache_that_cannot_be_written_costs_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the cache's folder is a device, the library is made anew."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    monkeypatch.setattr(bundle_js, "_bundled", lambda: "made anew")
    assert bundle_js.vega() == "made anew"


def test_without_the_extra_a_report_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package is a sentence with the command that installs it."""

    def nothing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", nothing)
    with pytest.raises(UsageError) as caught:
        bundle_js.vega()
    assert f"pip install {bundle_js.PACKAGE}" in caught.value.hint


def test_without_runs_a_report_is_refused_in_a_sentence() -> None:
    """Where no run has a log, the command says so and writes nothing."""
    done = run_ferry("report")
    assert done.returncode == 2
    assert "has a log" in done.stderr and "hint: " in done.stderr
