"""Kaggle: a private kernel of the user's own account, run in a session with the accelerator asked for.

A submission's reference is `owner/slug/version`. Every question names that version: without it the service
answers for whatever ran last. No slug is used twice, so a kernel of that name is the one that was pushed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from builder import accelerators
from builder.backends import Finding, Intent, Limits, OutputFile, Quota, State, Status, Submission
from builder.backends.kaggle import answers, checks, livelog
from builder.backends.kaggle.service import Reference, Service
from builder.backends.kaggle.wire import Wire
from builder.build import CODE_FILES
from builder.errors import DeniedError, FerryError, InfrastructureError, RefusedThereError, a_no_is_final
from builder.runs import atomic_write

INVALID = ("tags", "dataset_sources", "competition_sources", "kernel_sources", "model_sources")
LOOKED_AT = 10  # kernels that may be running, one question each
LONGEST = timedelta(hours=13)  # a session's 12 hours and its queue


class Kaggle:
    """The verbs; `service` does the asking."""

    name = "kaggle"

    def __init__(self, wire: Wire | None = None) -> None:
        self.service = Service(wire or Wire())

    def submit(self, intent: Intent) -> Submission:
        """Push the kernel; it is accepted only when a version came back and nothing was left out.

        Raises CapacityError for slots and quota, RefusedThereError for any other no, InfrastructureError
        when it cannot be known whether it was accepted.
        """
        owner = self.account()
        with a_no_is_final():
            answer = self.service.save_kernel(**_what_to_save(intent, owner))
        invalid = [f"{what} {name}" for what in INVALID for name in getattr(answer, f"invalid_{what}")]
        owner, slug = _named(answer.url) or (owner, intent.slug)
        if answer.error or invalid:
            runs = answer.version_number and not answer.error  # without what it was meant to have
            raise answers.refused_push(answer.error, invalid, self._take_back(owner, slug) if runs else "")
        if not answer.version_number:
            raise InfrastructureError(
                "Kaggle answered the push and named no version", "`ferry pull` finds out whether it runs"
            )
        return Reference(owner, slug, answer.version_number).submission(intent.slug, answer.url)

    def _take_back(self, owner: str, slug: str) -> str:
        """Delete a kernel that must not run; return why it could not be."""
        try:
            return self.service.delete_kernel(owner, slug)
        except FerryError as problem:
            return problem.message

    def find(self, intent: Intent) -> Submission | None:
        """Look for a kernel of that name, itself and in the list: a young one may be known to only one."""
        owner = self.account()
        try:
            known = [self.service.kernel(owner, intent.slug)]
        except DeniedError:
            listed = self.service.own_kernels(intent.slug)
            known = [kernel for kernel in listed if kernel.ref == f"{owner}/{intent.slug}"]
        if not known or known[0] is None:
            return None
        return Reference(owner, intent.slug, known[0].current_version_number or 1).submission(intent.slug)

    def status(self, submissions: Sequence[Submission]) -> list[Status]:
        """Ask for each version: the service has no call for several."""
        references = map(Reference.of, submissions)
        return [
            answers.status_of(self.service.session_status(**reference.fields())) for reference in references
        ]

    def follow_log(self, submission: Submission) -> Iterator[bytes]:
        """Yield the live log, one JSON record a line; that of a queued run may be long in coming."""
        self.service.credential()  # asked for here, for the log is read by a thread
        return livelog.with_silence(self._live_log(Reference.of(submission)), livelog.TICK_S)

    def _live_log(self, reference: Reference) -> Iterator[bytes]:
        owner, slug, version = reference
        path = f"kernels/logs/stream/{quote(owner)}/{quote(slug)}?versionLabel=v{version}"
        content_type, blocks = self.service.wire.live_log(path, self.service.credential())
        yield from livelog.records(content_type, blocks)

    def fetch_log(self, submission: Submission, target: Path) -> None:
        """Write the stored log, which is empty when the service has none, or none yet."""
        atomic_write(target, self.service.session_output(Reference.of(submission)).log)

    def fetch_source(self, submission: Submission, folder: Path) -> Path:
        """Write the source of a version into a folder; return its file."""
        text, kind = self.service.source(Reference.of(submission))
        target = folder / CODE_FILES.get(kind, CODE_FILES["script"])
        atomic_write(target, text)
        return target

    def list_outputs(self, submission: Submission) -> Iterator[OutputFile]:
        """Yield the output files, page by page; a page that was there before ends the list."""
        reference = Reference.of(submission)
        page, seen = self.service.session_output(reference), {""}
        while True:
            yield from (OutputFile(file.file_name, link=file.url) for file in page.files)
            if page.next_page_token in seen:
                return
            seen.add(page.next_page_token)
            page = self.service.session_output(reference, page.next_page_token)

    def fetch_output(self, submission: Submission, file: OutputFile) -> Iterator[bytes]:
        """Yield a file's bytes. InfrastructureError for an expired link, a web page, and a file cut short."""
        headers, blocks = self.service.wire.download(file.link, file.name)
        start = next(blocks, b"")
        if _is_web_page(file.name, headers, start):
            raise InfrastructureError(f"a web page came instead of {file.name}", "its link may have expired")
        yield start
        yield from blocks

    def stop(self, submission: Submission) -> None:
        """Delete the kernel: the service has no other way to end a session."""
        owner, slug, _ = Reference.of(submission)
        with a_no_is_final():
            problem = self.service.delete_kernel(owner, slug)
        if problem:
            raise RefusedThereError(
                f"Kaggle did not delete {owner}/{slug}: {problem}", f"see {submission.url}"
            )

    def limits(self) -> Limits:
        """What is known of the service: two GPU sessions of 12 hours, and that it minds many questions."""
        return Limits(
            sessions=2, session_s=43_200.0, poll_s=45.0, grace_s=300.0, streams=True, stop_deletes=True
        )

    def account(self) -> str:
        """Return whose quota a push uses."""
        return self.service.credential().username

    def quota(self) -> list[Quota]:
        """Return the week's hours of GPU and TPU."""
        answer = self.service.quota()
        refresh = answer.quota_refresh_time
        at = refresh.replace(tzinfo=UTC).isoformat(timespec="seconds") if refresh else ""
        spent = (("GPU", answer.gpu_quota), ("TPU", answer.tpu_quota))
        return [
            Quota(name, _s(one.time_used), _s(one.total_time_allowed), _s(one.time_reserved), at)
            for name, one in spent
            if one
        ]

    def remarks(self) -> list[str]:
        """Return what is wrong with the credentials that were looked at."""
        return [f"{remark.detail}: {remark.mend}" for remark in self.service.remarks]

    def active(self) -> list[str]:
        """Return the account's kernels that are queued or running on a GPU or TPU, each with its state.

        The service lists kernels, not sessions: the youngest of the last hours are asked one by one.
        """
        since = datetime.now(UTC).replace(tzinfo=None) - LONGEST
        kernels = filter(_has_accelerator, self.service.own_kernels())
        young = [one.ref for one in kernels if (one.last_run_time or since) >= since]
        states = {ref: self._newest(ref) for ref in young[:LOOKED_AT]}
        return [f"{ref} ({state})" for ref, state in states.items() if state in (State.QUEUED, State.RUNNING)]

    def checks(self) -> Iterator[Finding]:
        """Look at library, proxy, credentials, service and clock."""
        return checks.checks(self.service)

    def _newest(self, ref: str) -> State:
        owner, _, slug = ref.partition("/")
        try:
            return answers.status_of(self.service.session_status(user_name=owner, kernel_slug=slug)).state
        except DeniedError:  # a deleted kernel stays in the list for a while
            return State.UNKNOWN


def _what_to_save(intent: Intent, owner: str) -> dict[str, object]:
    """Return the fields of the push: private, title and slug the same, one accelerator in all its fields."""
    timeout = {"session_timeout_seconds": math.ceil(intent.timeout_s)} if intent.timeout_s else {}
    return {
        "slug": f"{owner}/{intent.slug}",
        "new_title": intent.slug,
        "text": (intent.folder / CODE_FILES[intent.form]).read_text(encoding="utf-8"),
        "language": "python",
        "kernel_type": intent.form,
        "is_private": True,
        "enable_internet": intent.internet,
        **accelerators.kaggle_fields(intent.accelerator),
        **timeout,
    }


def _has_accelerator(kernel: Any) -> bool:
    """Whether a kernel's sessions have a GPU or TPU, going by its metadata; yes where that does not say."""
    return bool(kernel.machine_shape or kernel.enable_tpu or kernel.enable_gpu or "enable_gpu" not in kernel)


def _named(url: str) -> tuple[str, str] | None:
    """Return owner and slug as the service has made them, which is where the kernel is."""
    parts = urlsplit(url).path.strip("/").split("/")[-2:]
    return (
        (parts[0], parts[1]) if len(parts) == 2 and all(re.fullmatch(r"[\w-]+", p) for p in parts) else None
    )


def _is_web_page(name: str, headers: Mapping[str, str], start: bytes) -> bool:
    """Whether what begins like this is somebody's page; a file that is one itself is what was wanted."""
    if name.lower().endswith((".html", ".htm")):
        return False
    said = headers.get("Content-Type", "").lower().startswith("text/html")
    return said or bool(re.match(rb"(?i)\s*<(?:!doctype html|html)\b", start))


def _s(span: timedelta | None) -> float:
    return span.total_seconds() if span else 0.0


BACKEND = Kaggle
