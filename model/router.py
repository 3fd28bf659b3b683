"""Which routes there are, and which one a name stands for. Standard library only until a route is loaded.

A route is one file in `routes/`; its file name is its name. A name in `CHOICES` is no file: it stands for
what the model picks among them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from .routes import Route

AUTO = "auto"

# What the model does unasked is `auto`; `fast` compiles where that works. `safe` and `fp16` join here, once
# there is a choice to make.
CHOICES = {AUTO: "sdpa", "fast": "compiled"}


def files() -> tuple[str, ...]:
    """The names of the routes, sorted: one for each file in `routes/`."""
    found = (Path(__file__).parent / "routes").glob("[!_]*.py")
    return tuple(sorted(path.stem for path in found))


def names() -> tuple[str, ...]:
    """Every name that may be asked for: the choices, then the routes."""
    return (*CHOICES, *files())


def choose(name: str) -> str:
    """The route that a name stands for. Raises ValueError, with the known names, for an unknown one."""
    if name not in names():
        raise ValueError(f"unknown route {name!r}; known are: {', '.join(names())}")
    return CHOICES.get(name, name)


def load(name: str) -> Route:
    """A fresh route of that name; imports its file. Raises ValueError for an unknown name."""
    module = import_module(f"{__package__}.routes.{choose(name)}")
    return cast("type[Route]", module.Route)()
