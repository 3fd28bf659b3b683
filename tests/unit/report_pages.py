"""The page of a report as a browser would see it, without one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from builder.reading import Reading
from builder.reports.charts import charts_of
from builder.reports.html import report
from builder.reports.lines import lines_of
from tests.unit.written_logs import CARD

ODD = replace(CARD, name="Radeon Pro")


class Page(HTMLParser):
    """What a browser would see: the tags, the rows of the table of rows, and the JSON in the scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[str] = []
        self.feed(text)
        self.specs: dict[str, Any] = json.loads(_script(text, "SPECS"), parse_constant=_no_constant)
        self.samples: dict[str, Any] = json.loads(_script(text, "SAMPLES"), parse_constant=_no_constant)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        found = dict(attrs)
        if tag == "tr" and (found.get("id") or "").startswith("row-"):
            self.rows.append(str(found["id"]))


def _script(text: str, name: str) -> str:
    found = re.search(rf"^const {name} = (.*);$", text, re.MULTILINE)
    assert found
    return found[1]


def _no_constant(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def page_of(*readings: Reading) -> tuple[str, Page]:
    """The page's text, and what is in it."""
    text = report(readings)
    return text, Page(text)


def charts(*readings: Reading) -> dict[str, Any]:
    """The pictures of these runs by name."""
    return {chart.name: chart for chart in charts_of(lines_of(readings))}
