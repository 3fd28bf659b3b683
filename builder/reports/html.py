"""One self-contained page: the verdict, pictures, every row, and how they came about. It needs no network."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from builder import others, stats, timings, turns
from builder.reading import Reading
from builder.reports.charts import charts_of
from builder.reports.lines import Group, Line, groups_of, lines_of
from builder.reports.stages import stages_of
from builder.results import cell
from builder.roofline import card_of
from builder.stats import Word
from builder.templating import render
from builder.terminal import one_line, printable

_MOST_CARDS = 4  # of groups; more are a table
MOST_SAMPLES = 40_000  # in the page, for looking at single cases


@dataclass(frozen=True)
class Column:
    """A column of the table: its name, and whether it holds figures."""

    name: str
    is_figure: bool = False
    hint: str = ""


COLUMNS = (
    Column("case"),
    Column("status"),
    Column("speed-up", True, "baseline's median over the candidate's"),
    Column("95 %"),
    Column("noise", True, "a difference must be beyond this"),
    Column("verdict"),
    Column("baseline ms", True),
    Column("ms", True),
    Column("gate share", True, "the worst element's share of its budget; above 1 fails"),
    Column("max abs", True),
    Column("max rel", True, "no verdict: tiny references make it huge"),
    Column("× floor", True, "median over the hardware's floor"),
    Column("floor set by"),
    Column("tokens/s", True),
    Column("peak MiB", True),
    Column("checked by"),
    Column("ran"),
    Column("device"),
    Column("run"),
    Column("said"),
)


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and the number that it is sorted by, if it is one."""

    text: str
    value: float | None = None


def cells(line: Line) -> list[Cell]:
    """Return a row's cells under `COLUMNS`."""
    row, found = line.row, line.comparison
    bound = line.floor.bound if line.floor and row.median_ms else ""
    ran = row.route_ran if row.route_ran != row.route else ""
    return [
        Cell(line.label),
        Cell(f"{row.status}{_why_not(line)}"),
        _figure(found.ratio if found else None, ".3f", "×"),
        Cell(f"{found.low:.3f}–{found.high:.3f}" if found else ""),
        _figure(found.threshold if found else None, ".1%"),
        Cell(found.word if found else ""),
        _figure(row.baseline_median_ms),
        _figure(row.median_ms),
        _figure(row.gate_share, ".3g"),
        _figure(row.max_abs, ".3g"),
        _figure(row.max_rel, ".3g"),
        _figure(line.times_floor, ".3g", "×"),
        Cell(bound),
        _figure(row.tokens_per_s, ",.0f"),
        _figure(row.peak_mem_mib, ",.0f"),
        Cell(_check(line)),
        Cell(one_line(f"{row.route} → {ran}" if ran else row.route)),
        Cell(one_line(row.device)),
        Cell(one_line(line.run)),
        Cell(f"retracted: {line.retracted}" if line.retracted else one_line(row.error or row.route_note)),
    ]


def _why_not(line: Line) -> str:
    return " (retracted)" if line.retracted else " (simulated)" if line.row.is_simulated else ""


def _figure(value: float | None, form: str = ".4g", unit: str = "") -> Cell:
    if value is None:
        return Cell("")
    return Cell(f"{value:{form}}{unit}", value if math.isfinite(value) else None)


def _check(line: Line) -> str:
    row = line.row
    if not row.reference:
        return ""
    share = f", {row.coverage:.3g} of it" if row.coverage is not None and row.coverage < 1 else ""
    return one_line(f"{row.reference}{share}")


def headline(groups: Sequence[Group]) -> str:
    """Return the verdict in a sentence; of several groups how many there are: they are never blended."""
    means = [group for group in groups if group.geomean]
    if len(means) > 1:
        ratios = [group.geomean.ratio for group in means if group.geomean]
        return (
            f"{len(means)} groups, none blended with another: geomeans {min(ratios):.2f}–{max(ratios):.2f}×"
        )
    if not groups:
        return "no rows"
    group = (means or groups)[0]
    mean = group.geomean
    if group.is_simulated:
        return "a simulated device: these rows measure nothing"
    if mean is None:
        return f"no speed-up: {_counted(_statuses(groups))}"
    words = {
        Word.SAME: f"no difference from the baseline ({mean.ratio:.3f}×)",
        Word.UNTOLD: f"nobody can tell from the baseline ({mean.ratio:.3f}×, noise {mean.threshold:.0%})",
    }
    told = words.get(mean.word, f"{mean.ratio:.3f}× as fast as the baseline")
    return f"{told}, over {len(group.comparisons)} of {len(group.gradeable)} gradeable cases"


def under(groups: Sequence[Group]) -> str:
    """Return what the headline is about: the one group's words, or the runs and devices of several."""
    means = [group for group in groups if group.geomean] or groups
    if len(means) == 1:
        return " · ".join(means[0].words)
    lines = [line for group in groups for line in group.lines]
    devices = sorted({one_line(line.row.device) for line in lines} - {""})
    runs = len({line.run for line in lines})
    return f"{runs} {'run' if runs == 1 else 'runs'} on {' and '.join(devices) or 'no device'}"


def _statuses(groups: Sequence[Group]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for group in groups:
        found.update(group.statuses)
    return found


def _counted(numbers: dict[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in numbers.items())


_TOTALS = ("geomean", "median", "range", "verdicts", "against", "itself", "gradeable", "cases")


def totals(group: Group) -> dict[str, str]:
    """Return a group's totals by name; without a speed-up only how many cases there are of what kind."""
    told = {}
    if mean := group.geomean:
        low, high = group.range
        told = {
            "geomean": f"{mean.ratio:.3f}× ({mean.low:.3f}–{mean.high:.3f})",
            "median": f"{group.median:.3f}×",
            "range": f"{low:.3f}–{high:.3f}×",
            "verdicts": _counted({word.value: count for word, count in group.verdicts.items()}),
        }
    told |= {name: text for name, text in (("against", _against(group)), ("itself", _itself(group))) if text}
    told.setdefault("geomean", "no speed-up")
    have = f"{len(group.comparisons)} of {len(group.gradeable)} have a speed-up"
    told["gradeable"] = have if group.gradeable else "none: no baseline at these sizes"
    return {**told, "cases": _counted(group.statuses)}


def _against(group: Group) -> str:
    """What the two versions of a model come to that were timed in one sitting."""
    rows = [line.row for line in group.lines if line.counts]
    found = [figures for row in rows if (figures := timings.against(row.flags))]
    if not found:
        return ""
    both = stats.together(found)
    name = one_line(
        next((row.flags["against"] for row in rows if "against" in row.flags), "the other version")
    )
    return f"{name}: {both.ratio:.3f}× ({both.low:.3f}–{both.high:.3f}), {both.word}"


def _itself(group: Group) -> str:
    """What the baseline comes to when it is timed as if it were a candidate."""
    ratios = [float(line.row.flags["aa"]) for line in group.lines if line.counts and "aa" in line.row.flags]
    return f"the baseline as a candidate: {min(ratios):.3f}–{max(ratios):.3f}×" if ratios else ""


def alone(line: Line) -> str:
    """Return what there is to say of a case without a baseline: time, tokens a second, memory, its check."""
    row = line.row
    told = (
        f"{row.median_ms:,.4g} ms" if row.median_ms else "not timed",
        f"{row.tokens_per_s:,.0f} tokens/s" if row.tokens_per_s else "",
        f"peak {row.peak_mem_mib:,.0f} MiB" if row.peak_mem_mib else "",
        f"checked by {_check(line)}" if row.reference else "not checked",
    )
    return f"{line.label}: {', '.join(filter(None, told))}"


_ENVIRONMENT = (
    "asked_accelerator",
    "device",
    "capability",
    "driver",
    "torch",
    "triton",
    "python",
    "protocol",
    "tf32",
    "attention_backend",
    "harness_sha256",
    "model_sha256",
    "bundle_sha256",
    "git_commit",
    "git_dirty",
    "started_at",
)


def environment(reading: Reading) -> list[tuple[str, str]]:
    """Return what a run's rows say of where they ran; several values where rows differ."""
    told = []
    for name in _ENVIRONMENT:
        values = sorted({one_line(cell(getattr(row, name))) for row in reading.rows} - {""})
        told.append((name, ", ".join(values) or "unknown"))
    return told


def samples(lines: Sequence[Line]) -> dict[str, dict[str, Any]]:
    """Return the samples, in microseconds, of as many lines as there is room for."""
    found: dict[str, dict[str, Any]] = {}
    room = MOST_SAMPLES
    for line in lines:
        sides = line.record.samples
        room -= sum(len(taken) for rounds in sides.values() for taken in rounds)
        if room < 0:
            break
        if sides:
            rounds = {
                name: [[ns // 10 / 100 for ns in taken] for taken in all_] for name, all_ in sides.items()
            }
            found[line.anchor] = {"label": line.label, "sides": rounds}
    return found


def report(readings: Sequence[Reading], problems: Iterable[str] = (), library: str = "") -> str:
    """Return the page of these runs. `problems` are sentences on what could not be read.

    `library` is the JavaScript that draws, see `bundle_js`; without it the page has no pictures.
    """
    lines = lines_of(readings)
    groups = groups_of(lines)
    charts = list(charts_of(lines))
    unknown = sorted(
        {one_line(line.row.device) for line in lines if line.row.device and not _has_floor(line)}
    )
    said = [f"{reading.name}: {problem}" for reading in readings for problem in reading.records.problems]
    return render(
        "report/page.html.j2",
        headline=headline(groups),
        under=under(groups),
        groups=[(group, totals(group), [alone(line) for line in group.alone]) for group in groups],
        most_cards=_MOST_CARDS,
        total_names=_TOTALS,
        charts=charts,
        specs={chart.name: chart.spec for chart in charts},
        without_floor=unknown,
        impossible=[line for line in lines if line.is_impossible],
        stages=[
            (line, profile.side, stages_of(profile)) for line in lines for profile in line.record.profiles
        ],
        samples=samples(lines),
        columns=COLUMNS,
        rows=[(line, cells(line)) for line in lines],
        statuses=sorted({line.row.status for line in lines}),
        published_head=others.HEAD,
        others=others.beside([line.row for line in lines if line.counts]),
        unlike=list(turns.unlike_medians(line.row for line in lines if line.counts)),
        runs=[(reading, environment(reading)) for reading in readings],
        cards=[line for line in lines if line.row.flags.get("clocks") or line.row.flags.get("card_after")],
        problems=[printable(text) for text in (*problems, *said)],
        library=library,
    )


def _has_floor(line: Line) -> bool:
    return card_of(line.row.device) is not None
