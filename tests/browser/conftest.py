"""A real browser: the system's Chromium, headless, watched for what its console says and what it asks for."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from builder.reading import Reading
from builder.reports.bundle_js import vega
from builder.reports.html import report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@dataclass
class Opened:
    """A page that is open, what its console said, and every address it asked for beside its own file."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def wait_until_drawn(self) -> None:
        """Wait for the last picture."""
        self.page.wait_for_function("document.documentElement.dataset.drawn === 'yes'", timeout=120_000)


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, as the system has it."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed: apt install chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The drawing library, bundled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return vega()


@pytest.fixture
def open_report(browser: Browser, library: str, tmp_path: Path) -> Iterator[Open]:
    """Opens the report of some runs from disk; keywords are those of a new browser context."""
    contexts = []

    def open_(*readings: Reading, problems: tuple[str, ...] = (), **settings: Any) -> Opened:
        path = tmp_path / "page.html"
        path.write_text(report(readings, problems, library), encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **settings})
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on("console", lambda message: opened.said.append(message.text))
        opened.page.on("pageerror", lambda problem: opened.said.append(str(problem)))
        opened.page.on("request", lambda request: opened.asked.append(request.url))
        opened.page.goto(path.as_uri())
        opened.wait_until_drawn()
        opened.asked.remove(path.as_uri())
        return opened

    yield open_
    for context in contexts:
        context.close()
