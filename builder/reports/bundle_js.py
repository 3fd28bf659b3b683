"""The drawing library of a report as one text to put into the page: Vega, from the installed package."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from builder.errors import UsageError
from builder.runs import atomic_write

PACKAGE = "vl-convert-python"


def vega() -> str:
    """Return the JavaScript that defines `vegaEmbed`; made once a version, then kept in the user's cache.

    Raises UsageError where the package is not installed.
    """
    try:
        kept = _cache() / f"vega-{importlib.metadata.version(PACKAGE)}.js"
    except importlib.metadata.PackageNotFoundError:
        raise UsageError(
            "the charts of a report need Vega, which is not installed", f"pip install {PACKAGE}"
        ) from None
    if kept.exists():
        return kept.read_text(encoding="utf-8")
    text = _bundled()
    try:
        atomic_write(kept, text)
    except OSError:  # a cache that cannot be written costs seconds, and no report
        return text
    return text


def _bundled() -> str:
    import vl_convert

    text = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed"))
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("gpuferry")
