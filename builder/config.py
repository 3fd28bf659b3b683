"""Options from files: the user's `config.toml` under the project's `ferry.toml`, which is nearer and wins."""

from __future__ import annotations

from pathlib import Path

import tomllib

from builder.errors import UsageError


def files() -> list[Path]:
    """Return the configuration files there are, the most general first."""
    from platformdirs import user_config_path

    here = Path.cwd()
    project = next((d / "ferry.toml" for d in (here, *here.parents) if (d / "ferry.toml").exists()), None)
    user = user_config_path("gpuferry") / "config.toml"
    return [path for path in (user, project) if path and path.exists()]


def load(known: set[str]) -> dict[str, object]:
    """Return the options that the files set, by option name with underscores.

    Raises UsageError for a file that is no TOML and for a key that is not in `known`. A path in a file is
    relative to that file.
    """
    options: dict[str, object] = {}
    for path in files():
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise UsageError(f"{path} cannot be read: {problem}") from problem
        if unknown := sorted(set(content) - known):
            raise UsageError(
                f"{path} sets {unknown[0]!r}, which is no option", f"options: {', '.join(sorted(known))}"
            )
        for name in ("model", "harness"):
            if isinstance(value := content.get(name), str):
                content[name] = str(path.parent / value)
        options |= content
    return options
