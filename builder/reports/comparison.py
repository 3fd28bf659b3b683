"""A comparison of two runs as lines of cells, as sentences, and as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from builder.compare import Across, Compared, Pair
from builder.results import Row
from builder.stats import Word
from builder.terminal import one_line

HEAD = (
    "shape",
    "route",
    "dtype",
    "A ms",
    "B ms",
    "A/B",
    "95 %",
    "noise",
    "verdict",
    "speed-up",
    "moved: baseline, candidate",
)
RIGHT = (3, 4, 5, 6, 7, 9, 10)  # the columns of figures
_SHOWN = 10  # cases that a sentence names
_CANDIDATE_IS = {
    Word.FASTER: "B is faster",
    Word.SLOWER: "B is slower",
    Word.SAME: "no difference",
    Word.UNTOLD: "cannot tell",
}


def cells(pair: Pair) -> tuple[str, ...]:
    """Return a pair's line under `HEAD`."""
    a, b = pair.a.row, pair.b.row
    found = pair.found
    return (
        a.shape,
        _both(a.route, b.route),
        _both(a.dtype, b.dtype),
        _number(a.median_ms, ".4g"),
        _number(b.median_ms, ".4g"),
        f"{found.ratio:.3f}×" if found else "",
        f"{found.low:.3f}–{found.high:.3f}" if found else "",
        f"{found.beyond:.1%}" if found else "",
        verdict(pair),
        _both(_number(a.speedup, ".3g", "×"), _number(b.speedup, ".3g", "×")),
        ", ".join(f"{ms:+.3g} ms" for ms in pair.moved_ms) if pair.moved_ms else "",
    )


def verdict(pair: Pair) -> str:
    """Return a pair's verdict, or why there is none."""
    if pair.refusal:
        return f"refused ({pair.refusal})"
    return pair.found.word if pair.found else pair.reason


def headline(compared: Compared) -> str:
    """Return the whole in a sentence: the geomean's verdict, with its interval and noise."""
    mean = compared.geomean
    if mean is None:
        return f"no verdict on any of {len(compared.pairs)} pairs"
    return (
        f"{_CANDIDATE_IS[mean.word]}: geomean {_figure(mean)} over {len(compared.told)} of {_all(compared)}"
    )


def _figure(found: Across) -> str:
    return f"{found.ratio:.3f}× ({found.low:.3f}–{found.high:.3f}, noise {found.beyond:.1%})"


def _all(compared: Compared) -> str:
    return f"{len(compared.pairs) + len(compared.only_a) + len(compared.only_b)} cases"


def counts(compared: Compared) -> dict[str, int]:
    """Return how many pairs have each verdict; those without one are refused, failed now, or untimed."""
    totals: dict[str, int] = {}
    for pair in compared.pairs:
        word = pair.found.word.value if pair.found else _kind(pair)
        totals[word] = totals.get(word, 0) + 1
    return totals


def _kind(pair: Pair) -> str:
    return "refused" if pair.refusal else "no longer passes" if pair.lost else "no verdict"


def sentences(compared: Compared, threshold: float) -> Iterator[str]:
    """Yield what the table does not say: counts, what regressed, what has no partner, what else differs."""
    yield ", ".join(f"{count} {word}" for word, count in counts(compared).items()) or "nothing to pair"
    limit = f" by more than {threshold:.3g}" if threshold else ""
    yield from _named(
        f"slower{limit} or no longer passing", [p.a.row for p in compared.regressions(threshold)]
    )
    yield from _named("cannot tell", [pair.a.row for pair in compared.untold(threshold)])
    yield from _named("only in A", compared.only_a)
    yield from _named("only in B", compared.only_b)
    kinds = sorted({kind for pair in compared.pairs for kind in pair.differs if kind not in pair.across})
    if kinds:
        yield f"to compare although they differ: --across {' --across '.join(kinds)}"
    if notes := compared.notes():
        yield f"A and B differ in {'; '.join(notes)}"


def _named(word: str, rows: Sequence[Row]) -> Iterator[str]:
    if rows:
        more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        yield f"{word}: {', '.join(row.case_id for row in rows[:_SHOWN])}{more}"


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a or '?'} → {b or '?'}"


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "" if value is None else f"{value:{form}}{unit}"


# --- Markdown ---------------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&])")
_REFERENCE = re.compile(
    "([@#])"
)  # these call people and issues even when escaped: parted by a blank of no width


def markdown(compared: Compared, threshold: float) -> str:
    """Return the comparison fit for a pull request: the verdict first, then a table, then the sentences."""
    align = ["--:" if number in RIGHT else "---" for number in range(len(HEAD))]
    lines = [
        f"### {escaped(headline(compared))}",
        "",
        f"A is {_named_run(compared, 0)}, B is {_named_run(compared, 1)}. A/B above 1: B is faster.",
        "",
        table(HEAD, align, (cells(pair) for pair in compared.pairs)),
        "",
        *(f"- {escaped(sentence)}" for sentence in sentences(compared, threshold)),
    ]
    return "\n".join(lines) + "\n"


def _named_run(compared: Compared, which: int) -> str:
    run = (compared.a, compared.b)[which]
    devices = " and ".join(sorted({row.device for row in run.rows if row.device})) or "no device"
    commits = sorted({row.git_commit[:12] for row in run.rows if row.git_commit})
    return f"run {escaped(run.name)} on {escaped(devices)}{f' at {commits[0]}' if len(commits) == 1 else ''}"


def table(head: Iterable[str], align: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    rows = [f"| {' | '.join(map(escaped, line))} |" for line in (head, *lines)]
    return "\n".join([rows[0], f"|{'|'.join(align)}|", *rows[1:]])


def escaped(text: str) -> str:
    """Return a text as one line that Markdown shows as it is."""
    return _REFERENCE.sub("\\1\u200b", _SPECIAL.sub(r"\\\1", one_line(text)))
