"""What a table has no column for, in a word; and what a case's device was busy with, in a line."""

from __future__ import annotations

from collections.abc import Iterator

from builder.records import Records
from builder.results import Row
from builder.terminal import one_line
from harness.events import Profile

_SHOWN = 3
_NAME_CHARACTERS = 48


def note(row: Row) -> str:
    """Return what a reader of a row's figures should know of how they came about."""
    flags = row.flags
    strangers = flags.get("other_processes", "")
    said = (
        (bool(row.levers), " ".join(f"{name}={value}" for name, value in row.levers.items())),
        (flags.get("host_bound") == "yes", "host-bound"),
        (flags.get("clocks", "").startswith("moved"), "clocks moved"),
        (flags.get("throttle", "none") not in ("none", "unknown"), "throttled"),
        (strangers.isdecimal() and strangers != "0", "shared card"),
        ("limit" in flags.get("compiled", ""), "compilation fell back"),
        ({flags.get("tf32_ran"), flags.get("baseline_tf32_ran")} == {"yes", "no"}, "TF32 on one side"),
    )
    return ", ".join(word for is_so, word in said if is_so)


def busy_lines(records: Records) -> Iterator[str]:
    """Yield for each profile what most of the time went to."""
    for record in records.cases:
        for profile in record.profiles:
            yield f"{record.case.id} {profile.side}: {one_line(_most(profile))}"


def _most(profile: Profile) -> str:
    total = max(1, profile.total_ns)
    return ", ".join(
        f"{min(work.ns, total) / total:.0%} {work.name[:_NAME_CHARACTERS]}" for work in profile.top[:_SHOWN]
    )
