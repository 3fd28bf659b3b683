"""A second model in one process, though its modules may have the names of the first one's."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from harness.candidate import Candidate, load_candidate

FOLDER = "against"  # of the bundle, where the second model lies


class Apart:
    """The modules of a folder, in place only within `room()`: for its imports, those at a call too."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._names = {path.stem for path in folder.iterdir()}
        self._own: dict[str, ModuleType] = {}

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """Let names mean the folder's modules, and afterwards again what they meant before."""
        others = self._lifted()
        sys.modules.update(self._own)
        sys.path.insert(0, self._folder)
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):
                sys.path.remove(self._folder)
            self._own = self._lifted()
            sys.modules.update(others)

    def load(self, module_name: str) -> Candidate:
        """Import the folder's model. Raises what `load_candidate` raises."""
        with self.room():
            importlib.invalidate_caches()
            return load_candidate(module_name)

    def _lifted(self) -> dict[str, ModuleType]:
        """Take the modules of these names out of the way and return them."""
        found = [name for name in sys.modules if name.partition(".")[0] in self._names]
        return {name: sys.modules.pop(name) for name in found}
