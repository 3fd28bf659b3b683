"""Options from files: the user's `config.toml` under the project's `ferry.toml`, which is nearer and wins."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path

import tomllib

from builder.errors import UsageError


class Kind(enum.StrEnum):
    """What an option's value may be in a file; the words are for people."""

    SWITCH = "true or false"
    ONE = "one value"
    MANY = "a list of values"


def files() -> list[Path]:
    """Return the configuration files there are, the most general first."""
    from platformdirs import user_config_path

    here = Path.cwd()
    project = next((d / "ferry.toml" for d in (here, *here.parents) if (d / "ferry.toml").exists()), None)
    user = user_config_path("gpuferry") / "config.toml"
    return [path for path in (user, project) if path and path.exists()]


def load(known: Mapping[str, Kind]) -> dict[str, object]:
    """Return the options that the files set, named as on the command line with underscores for hyphens.

    A switch is a bool, all else is text or a list of texts, as on a command line. A path in a file is
    relative to that file. Raises UsageError for a file that is no TOML, for a key that is not in `known`,
    and for a value that is not of its kind.
    """
    options: dict[str, object] = {}
    for path in files():
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise UsageError(f"{path} cannot be read: {problem}", "mend the file") from problem
        for key, value in content.items():
            name = key.replace("-", "_")
            if name not in known:
                listed = ", ".join(sorted(known))
                raise UsageError(f"{path} sets {key!r}, which is no option", f"options: {listed}")
            options[name] = _read(path, name, known[name], value)
    return options


def _read(path: Path, name: str, kind: Kind, value: object) -> object:
    many = value if isinstance(value, list) else [value]
    if kind is Kind.SWITCH and isinstance(value, bool):
        return value
    if kind is Kind.MANY and all(map(_is_one, many)):
        return [str(item) for item in many]
    if kind is Kind.ONE and _is_one(value):
        return (
            str(path.parent / Path(str(value)).expanduser()) if name in ("model", "harness") else str(value)
        )
    raise UsageError(f"{path} sets {name} to {value!r:.60}", f"it takes {kind}")


def _is_one(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)
