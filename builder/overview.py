"""What `ferry --help` prints. Made without click, whose import alone takes three bare interpreter starts."""

from __future__ import annotations

from pathlib import Path

_TEXT = """\
Usage: ferry [OPTIONS] COMMAND [ARGS]...

  Carry GPU code to a machine that has the GPU, and carry the measured results
  back.

  Start here:  ferry run                                  a small suite on this machine
               ferry run --suite official --shapes 1-5    the contest's shapes
               ferry COMMAND --help                       every command has an example

Options:
  --version   Print the version.
  -h, --help  Show this message and exit.

Commands:
"""


def commands() -> dict[str, Path]:
    """Return every command's name with its file in `builder/cli/`."""
    files = sorted((Path(__file__).parent / "cli").glob("[a-z]*.py"))
    return {path.stem.rstrip("_").replace("_", "-"): path for path in files}


def short_help(path: Path) -> str:
    """Return what a command does: the first line of its file, without quotes and full stop."""
    with path.open(encoding="utf-8") as source:
        return source.readline().strip().strip('"').rstrip(".")


def overview() -> str:
    """Return the help of `ferry` itself."""
    names = commands()
    width = max(map(len, names))
    return _TEXT + "".join(f"  {name:{width}}  {short_help(path)}\n" for name, path in names.items())
