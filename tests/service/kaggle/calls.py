"""The calls about kernels: a request's JSON in, an answer's JSON out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.service.kaggle.knobs import Knobs
from tests.service.kaggle.outputs import Outputs
from tests.service.kaggle.replies import ServiceError
from tests.service.kaggle.sessions import Kernel, Session, Sessions, machine_of

Json = dict[str, Any]
MAX_TITLE = 50
INVALID = ("Tags", "DatasetSources", "CompetitionSources", "KernelSources", "ModelSources")


class Calls:
    """`kernels.KernelsApiService`, method by method; each gets the user and the request."""

    def __init__(self, sessions: Sessions, outputs: Outputs, knobs: Knobs) -> None:
        self.sessions, self.outputs, self.knobs = sessions, outputs, knobs
        self.methods: dict[str, Callable[[str, Json], Json]] = {
            "SaveKernel": self.save,
            "GetKernelSessionStatus": self.status,
            "ListKernelSessionOutput": self.output,
            "GetKernel": self.get,
            "ListKernels": self.list,
            "ListKernelFiles": self.files,
            "DeleteKernel": self.delete,
            "GetAcceleratorQuotaStatistics": self.quota,
        }

    def save(self, user: str, request: Json) -> Json:
        """Push: a version and its session, or an answer of status 200 whose `error` says no."""
        text = request.get("text", "")
        if len(text.encode()) > self.knobs.source_limit:
            raise ServiceError(400, "The kernel source must be less than 1 megabytes in size.")
        _check_notebook(request)
        with self.sessions.lock:
            kernel = self._pushed_to(user, request)
            refusal = self._refusal(user, request, kernel)
            if refusal:
                return _push_reply("", "", 0, 0, error=refusal)
            kernel = kernel or self.sessions.create(user, request["newTitle"])
            session = self.sessions.begin(kernel, request)
        reply = _push_reply(
            f"/code/{kernel.ref}", f"https://www.kaggle.com/code/{kernel.ref}", session.number, kernel.number
        )
        return reply | {name: list(values) for name, values in self.knobs.invalid.items()}

    def status(self, user: str, request: Json) -> Json:
        """Say how the newest session is, or that of the version asked for."""
        kernel = self._kernel(user, request)
        if time.monotonic() < kernel.versions[0].pushed_at + self.knobs.unseen_s:
            raise ServiceError(404, "Not found")
        session = self._session(kernel, request)
        word = session.status if self.knobs.status_word is None else self.knobs.status_word
        reply = {"failureMessage": session.failure} if session.failure else {}
        return reply | ({"status": self._spelled(word)} if word else {})

    def output(self, user: str, request: Json) -> Json:
        """One page of an ended session's files, and its log."""
        session = self._session(self._kernel(user, request), request)
        files, token = self.outputs.page(
            session, request.get("pageSize") or 20, request.get("pageToken") or ""
        )
        late = time.monotonic() < session.ended_at + self.knobs.log_late_s
        log = (
            "" if late or self.knobs.log_empty or not session.ended else session.log.text(self.knobs.log_form)
        )
        return {"files": files, "log": log} | ({"nextPageToken": token} if token else {})

    def get(self, user: str, request: Json) -> Json:
        """A version's source and settings."""
        session = self._session(self._kernel(user, request), request)
        sent = session.request
        blob = {"source": sent.get("text", ""), "language": sent.get("language", "python")}
        blob |= {"kernelType": sent.get("kernelType", "script"), "slug": session.kernel.slug}
        return {"metadata": _metadata(session.kernel), "blob": blob}

    def list(self, user: str, request: Json) -> Json:
        """The user's kernels, those run last first; `slug` comes back empty here."""
        mine = [kernel for kernel in self.sessions.kernels if kernel.owner == user and not kernel.deleted]
        found = [kernel for kernel in mine if request.get("search", "") in kernel.ref]
        found.sort(key=lambda kernel: kernel.versions[-1].started_wall, reverse=True)
        size = min(request.get("pageSize") or 20, 100)
        start = int(request.get("pageToken") or (request.get("page", 1) - 1) * size)
        reply: Json = {
            "kernels": [_metadata(kernel) | {"slug": ""} for kernel in found[start : start + size]]
        }
        return reply | ({"nextPageToken": str(start + size)} if start + size < len(found) else {})

    def files(self, user: str, request: Json) -> Json:
        """The newest session's files with their sizes; nothing, and no error, without a name."""
        if not (request.get("userName") and request.get("kernelSlug")):
            return {"files": []}
        session = self._session(self._kernel(user, request), request)
        day = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        listed = [
            {"name": name, "size": len(data), "creationDate": day}
            for name, data in sorted(session.outputs.items())
        ]
        size, start = request.get("pageSize") or 20, int(request.get("pageToken") or 0)
        reply: Json = {"files": listed[start : start + size]}
        return reply | ({"nextPageToken": str(start + size)} if start + size < len(listed) else {})

    def delete(self, user: str, request: Json) -> Json:
        """Delete a kernel, which stops its sessions."""
        self.sessions.delete(self._kernel(user, request))
        return {}

    def quota(self, user: str, request: Json) -> Json:
        """What is used and left of the week's hours."""
        gpu = {"timeReserved": "0s", "totalTimeAllowed": f"{self.knobs.gpu_total_s:g}s", "hasEverRun": True}
        if not self.knobs.quota_without_used:
            gpu["timeUsed"] = f"{self.knobs.gpu_used_s:g}s"
        tpu = {"timeUsed": "0s", "timeReserved": "0s", "totalTimeAllowed": "72000s"}
        return {"quotaRefreshTime": "2026-11-07T00:00:00Z", "gpuQuota": gpu, "tpuQuota": tpu}

    def session(self, user: str, owner: str, slug: str, label: str) -> Session:
        """Return the session that the log stream asks for."""
        request = {"userName": owner, "kernelSlug": slug, "versionLabel": label}
        return self._session(self._kernel(user, request), request)

    def _pushed_to(self, user: str, request: Json) -> Kernel | None:
        """Return the kernel that a push adds a version to, None for a new one."""
        if "id" in request:
            return next((kernel for kernel in self.sessions.kernels if kernel.number == request["id"]), None)
        owner, _, slug = request.get("slug", "").rpartition("/")
        kernel = self.sessions.find(owner or user, slug)
        return None if kernel is None or kernel.deleted else kernel

    def _refusal(self, user: str, request: Json, kernel: Kernel | None) -> str:
        """Why a push is refused with status 200, "" if it is not."""
        owner = request.get("slug", "").rpartition("/")[0]
        title = request.get("newTitle", "")
        if self.knobs.refusal:
            return self.knobs.refusal
        if (
            owner not in ("", user)
            or (kernel and kernel.owner != user)
            or (kernel is None and "id" in request)
        ):
            return "Notebook not found"
        if kernel is None and not title:
            return "Kernel not found"
        if kernel is None and self._taken(user, title):
            raise ServiceError(409, f'The requested title "{title}" is already in use by a notebook.')
        if len(title) > MAX_TITLE:
            raise ServiceError(500, "Internal error")
        return self._no_slot(request)

    def _taken(self, user: str, title: str) -> bool:
        return any(
            kernel.owner == user and kernel.title == title and not kernel.deleted
            for kernel in self.sessions.kernels
        )

    def _no_slot(self, request: Json) -> str:
        if request.get("kernelExecutionType") == "QUICK_SAVE":
            return ""
        machine = machine_of(request)
        slots = {"GPU": self.knobs.gpu_slots, "TPU": 1, "CPU": self.knobs.cpu_slots}[machine]
        full = self.sessions.busy(machine) >= slots
        return f"Maximum batch {machine} session count of {slots} reached." if full else ""

    def _kernel(self, user: str, request: Json) -> Kernel:
        """Return the kernel that a request names; one that never was is as forbidden as one of others."""
        kernel = self.sessions.find(request.get("userName", ""), request.get("kernelSlug", ""))
        if kernel is None or kernel.owner != user or not kernel.versions:
            raise ServiceError(403, "Permission 'kernels.get' was denied")
        if kernel.deleted:
            raise ServiceError(404, "Not found")
        return kernel

    def _session(self, kernel: Kernel, request: Json) -> Session:
        label = request.get("versionLabel") or ""
        if not label or not self.knobs.honours_versions:
            newest = kernel.versions[-1]
            stale = time.monotonic() < newest.pushed_at + self.knobs.stale_s
            return kernel.versions[-2] if stale and len(kernel.versions) > 1 else newest
        for session in kernel.versions:
            if label == f"v{session.number}":
                return session
        raise ServiceError(404, "Not found")

    def _spelled(self, word: str) -> str:
        first, *others = word.lower().split("_")
        forms = {"upper": word, "lower": word.lower(), "prefixed": f"KERNEL_WORKER_STATUS_{word}"}
        return forms.get(self.knobs.status_form, first + "".join(other.title() for other in others))


def _check_notebook(request: Json) -> None:
    """The service fails on a notebook whose sources are lists of lines, as editors save them."""
    if request.get("kernelType") == "notebook" and request.get("language") == "python":
        try:
            cells = json.loads(request.get("text", "")).get("cells", [])
        except ValueError:
            return  # accepted, and papermill's problem
        if any(not isinstance(cell.get("source"), str) for cell in cells):
            raise ServiceError(500, "Internal error")


def _push_reply(ref: str, url: str, version: int, kernel: int, error: str = "") -> Json:
    reply: Json = {"ref": ref, "url": url, "versionNumber": version, "kernelId": kernel}
    return reply | {f"invalid{name}": [] for name in INVALID} | ({"error": error} if error else {})


def _metadata(kernel: Kernel) -> Json:
    newest = kernel.versions[-1]
    sent = newest.request
    settings = (
        "language",
        "kernelType",
        "isPrivate",
        "enableGpu",
        "enableTpu",
        "enableInternet",
        "machineShape",
    )
    lists = (
        "categoryIds",
        "datasetDataSources",
        "kernelDataSources",
        "competitionDataSources",
        "modelDataSources",
    )
    when = newest.ended_wall if newest.ended else newest.started_wall
    return {
        "id": kernel.number,
        "ref": kernel.ref,
        "title": kernel.title,
        "author": kernel.owner,
        "slug": kernel.slug,
        "lastRunTime": datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "totalVotes": 0,
        "currentVersionNumber": newest.number,
        **{name: sent[name] for name in settings if name in sent},
        **{name: sent.get(name, []) for name in lists},
    }
