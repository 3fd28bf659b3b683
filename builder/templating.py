"""Texts from the templates that lie beside the builder package."""

from __future__ import annotations

from pathlib import Path

# The same rule in a checkout and in an installed wheel: everything that travels lies beside `builder/`.
ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "templates"


def render(template: str, **values: object) -> str:
    """Return `templates/<template>` filled in. jinja2.UndefinedError when it names a value not given."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=select_autoescape(("html", "html.j2")),
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    return environment.get_template(template).render(**values)
