"""The harness's own files as they were when the driver started. Standard library only."""

from __future__ import annotations

import contextlib
from pathlib import Path


class Originals:
    """Keeps the files' bytes: a candidate that is not isolated must not change them for the next case."""

    def __init__(self, root: Path) -> None:
        files = [
            *sorted((root / "harness").rglob("*.py")),
            *sorted(root.glob("torch_transformer_benchmark.py")),
        ]
        self._root = root
        self._contents = {path: path.read_bytes() for path in files}

    def restore(self) -> list[str]:
        """Put back what was changed, added or removed; return the names of those files."""
        touched = [path for path, content in self._contents.items() if _read(path) != content]
        added = [path for path in (self._root / "harness").rglob("*.py") if path not in self._contents]
        with contextlib.suppress(OSError):
            for path in added:
                path.unlink()
            for path in touched:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self._contents[path])
        return sorted(str(path.relative_to(self._root)) for path in (*touched, *added))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
