"""Options from files: the user's `config.toml` under the project's `ferry.toml`, which is nearer and wins.

A table `[backends.NAME.PROFILE]` says how to use a place: `--backend NAME:PROFILE`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import tomllib

from builder.errors import UsageError
from harness.events import from_plain
from harness.shapes import parse_duration

P = TypeVar("P")

PLACES = "backends"  # the table of tables of profiles
DURATION = {"unit": "duration"}  # metadata of a profile's field that takes 90s, 9m, 1.5h


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
        for key, value in _content(path).items():
            name = key.replace("-", "_")
            if name == PLACES:
                continue
            if name not in known:
                listed = ", ".join(sorted(known))
                raise UsageError(f"{path} sets {key!r}, which is no option", f"options: {listed}")
            options[name] = _read(path, name, known[name], value)
    return options


def _content(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path} cannot be read: {problem}", "mend the file") from problem


def profiles(backend: str) -> list[str]:
    """Return the names of a backend's profiles. UsageError for a file that is no TOML."""
    return sorted({name for path in files() for name in _profiles(path, backend)})


def profile(backend: str, name: str, cls: type[P]) -> P:
    """Return the profile `backend:name` as a `cls`, whose fields are the keys that it may have.

    Where both files have keys of it, the nearer file's win. Raises UsageError when neither has such a
    profile, for a key that `cls` does not know and for a value that does not fit its field.
    """
    found: dict[str, object] = {}
    tables = [(path, _profiles(path, backend)) for path in files()]
    for path, table in tables:
        found |= _fields(f"{path}, [{PLACES}.{backend}.{name}]", cls, table.get(name, {}))
    if not any(name in table for _, table in tables):
        known = ", ".join(profiles(backend)) or "none yet"
        raise UsageError(
            f"backend {backend} has no profile {name!r}",
            f"profiles: {known}; one is a table [{PLACES}.{backend}.{name}] in ferry.toml",
        )
    return from_plain(cls, found)


def _profiles(path: Path, backend: str) -> dict[str, dict[str, object]]:
    places = _content(path).get(PLACES, {})
    table = places.get(backend, {}) if isinstance(places, dict) else None
    if not isinstance(table, dict) or not all(isinstance(one, dict) for one in table.values()):
        raise UsageError(f"{path}: [{PLACES}.{backend}] holds more than profiles", "write each as a table")
    return table


def _fields(where: str, cls: type[Any], table: Mapping[str, object]) -> dict[str, object]:
    """Check a profile's keys and values one by one, so that what is wrong can be named."""
    known = {field.name: field for field in dataclasses.fields(cls)}
    checked = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in known:
            raise UsageError(f"{where} sets {key!r}, which is no key of it", f"keys: {', '.join(known)}")
        try:
            is_duration = known[name].metadata == DURATION
            checked[name] = parse_duration(str(value)) if is_duration else value
            from_plain(cls, {name: checked[name]})
        except (TypeError, ValueError) as problem:
            raise UsageError(f"{where} sets {key} to {value!r:.60}", f"{problem}") from problem
    return checked


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
