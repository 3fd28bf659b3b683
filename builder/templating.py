"""Texts from the templates that lie beside the builder package."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

# The same rule in a checkout and in an installed wheel: everything that travels lies beside `builder/`.
ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "templates"


def render(template: str, **values: object) -> str:
    """Return `templates/<template>` filled in. jinja2.UndefinedError when it names a value not given."""
    return _environment().get_template(template).render(**values)


@functools.cache
def _environment() -> Environment:
    """The templates, each compiled once: a run of many parts has as many kernels."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=select_autoescape(("html", "html.j2")),
        keep_trailing_newline=True,
        trim_blocks=True,
    )
