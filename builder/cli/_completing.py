"""What the shell offers where somebody presses Tab: names that are known on this machine; nobody is asked.

A shell waits for each answer. So the common ones come without importing the command, which may take long:
commands, the values of the options in `_OFFERS`, and runs where a command takes them.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from builder.disk import PUBLISHED, RUN_ID, runs_root
from builder.errors import Exit, UsageError
from builder.overview import commands, short_help

_FIRST_A_RUN = "compare import logs ls parse publish pull report rerun resume retract show status stop verify"
RUN_TAKERS = frozenset(_FIRST_A_RUN.split())
_MOST = 100

Offer = tuple[str, str]  # a value, and what it is


def answer(cli: click.Command, variable: str) -> Exit:
    """Answer the shell that asks, with `bash_complete` or the like in an environment variable."""
    shell, _, instruction = os.environ[variable].partition("_")
    known = get_completion_class(shell)
    if known is None:
        return Exit.BUG

    class Quick(known):  # type: ignore[valid-type, misc]
        """The shell's own protocol, with quick answers first."""

        def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
            """Return what may come next."""
            offers = _at_hand(args, incomplete)
            whole: list[CompletionItem] = super().get_completions(args, incomplete) if offers is None else []
            return whole if offers is None else _items(offers, incomplete)

    completion: ShellComplete = Quick(cli, {}, "ferry", variable)
    click.echo(completion.source() if instruction == "source" else completion.complete())
    return Exit.OK


def completing(command: click.Command) -> click.Command:
    """Let a command's parameters offer what their names stand for."""
    for parameter in command.params:
        if offers := _OFFERS.get(_word(parameter)):
            parameter.shell_complete = functools.partial(_completed, offers)  # type: ignore[method-assign]
    return command


def _word(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len).lstrip("-")


def _completed(offers: Callable[[], Iterable[Offer]], _: click.Context, typed: str) -> list[CompletionItem]:
    return _items(offers(), typed)


def _at_hand(args: list[str], typed: str) -> Iterable[Offer] | None:
    """Return what may come next where that is known without the command; None where it is not."""
    if args and args[-1].startswith("--"):
        offers = _OFFERS.get(args[-1].lstrip("-"))
        return offers() if offers else None
    if typed.startswith("-"):
        return None
    if not args:
        return ((name, short_help(path)) for name, path in commands().items())
    return _runs() if len(args) == 1 and args[0] in RUN_TAKERS else None


def _items(offers: Iterable[Offer], typed: str) -> list[CompletionItem]:
    """Return what goes on from what was typed; of words joined by commas, from the last one. Else a file."""
    before, comma, begun = typed.rpartition(",")
    found = [(f"{before}{comma}{value}", about) for value, about in offers if value.startswith(begun)]
    items = [CompletionItem(value, help=about or None) for value, about in found[:_MOST]]
    return items or [CompletionItem(typed, type="file")]


# --- what there is, each imported when it is asked for ----------------------------------------------------


def _suites() -> Iterator[Offer]:
    from harness.shapes import SUITES

    yield from ((suite.name, suite.about) for suite in SUITES.values())


def _shapes() -> Iterator[Offer]:
    from harness.shapes import SHAPES

    yield from ((one.key, f"{one.batch}×{one.seq_len}×{one.d_model}") for one in SHAPES.values())


def _routes() -> Iterator[Offer]:
    from builder import declared

    yield from declared.choices().items()
    yield from ((route.name, route.about) for route in declared.files())


def _dtypes() -> Iterator[Offer]:
    from harness.shapes import DTYPE_BYTES

    yield from ((name, f"{size} bytes") for name, size in DTYPE_BYTES.items())


def _statuses() -> Iterator[Offer]:
    from harness.events import STATUSES

    yield from ((status, "") for status in STATUSES)


def _accelerators() -> Iterator[Offer]:
    from builder.accelerators import GENERIC, KNOWN

    yield from ((one.name, one.device) for one in KNOWN.values() if not one.retired)
    yield from ((word, "") for word in GENERIC)


def _backends() -> Iterator[Offer]:
    from builder import backends, config

    for name in backends.names():
        yield name, backends.about(name)
        with contextlib.suppress(UsageError):  # a file that cannot be read is told where it is used
            yield from ((f"{name}:{profile}", "") for profile in config.profiles(name))


def _runs() -> Iterator[Offer]:
    """The runs there are, the newest first."""
    names = set()
    for root in (runs_root(), runs_root() / PUBLISHED):
        with contextlib.suppress(OSError):  # there may be none yet
            names |= set(os.listdir(root))  # noqa: PTH208 - names are all that is wanted of many
    yield from ((name, "") for name in sorted(filter(RUN_ID.fullmatch, names), reverse=True))


def _scenes() -> Iterator[Offer]:
    from builder import demo

    yield from ((scene, "") for scene in demo.names())


# By the option's or the argument's name, which means the same in every command.
_OFFERS: dict[str, Callable[[], Iterable[Offer]]] = {
    "suite": _suites,
    "shapes": _shapes,
    "shape": _shapes,
    "route": _routes,
    "dtype": _dtypes,
    "status": _statuses,
    "accelerator": _accelerators,
    "backend": _backends,
    "scene": _scenes,
    "against": _runs,
    **dict.fromkeys(("run", "names", "sources", "a", "b", "place", "words"), _runs),
}
