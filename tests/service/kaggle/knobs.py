"""What the service has, and what goes wrong with it. Each knob may be turned before and during a run."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Shape = Literal["flat", "nested", "html", "html as json"]
Trouble = Literal["error", "reset", "silence", "cut"]
WordForm = Literal["upper", "lower", "camel", "prefixed"]
LogForm = Literal["array", "lines", "text", "cut array"]

SLOTS = "Maximum batch GPU session count of 2 reached."
WEEKLY_QUOTA = "Maximum weekly GPU quota of 30.00 hours reached."
# That such a refusal exists is known, its words are not: a client must not depend on more than "quota".
FORECAST_QUOTA = "The session's forecast use would exceed the weekly GPU quota of 30.00 hours."
OUT_OF_MEMORY = "Your notebook tried to allocate more memory than is available."
OUT_OF_TIME = "Your notebook was stopped because it exceeded the max allowed execution duration."


@dataclass
class Fault:
    """One thing that goes wrong with the answers to a call.

    `call` is a method such as `SaveKernel`, or `stream`, `download`, `*` for any. The fault lets `skip`
    requests pass, then hits `times` of them (None: all). With `accepted` the call takes effect first and
    only its answer is lost. An `error` has `status` and the body's `shape`, also with a status of 200.
    """

    call: str
    trouble: Trouble = "error"
    status: int = 503
    message: str = "The service is currently unavailable."
    shape: Shape = "flat"
    retry_after: str = ""
    accepted: bool = False
    times: int | None = 1
    skip: int = 0

    def __post_init__(self) -> None:
        self.accepted |= self.trouble == "cut"  # half an answer needs a whole one first


@dataclass(frozen=True)
class Ending:
    """A session that does not end by itself: `after_s` into its run it is killed and has this status."""

    after_s: float
    status: str = "ERROR"
    message: str = OUT_OF_MEMORY


@dataclass
class Knobs:
    """Every setting of the service; the defaults are a service in good health."""

    # Any request
    faults: list[Fault] = field(default_factory=list)
    error_shape: Shape = "flat"  # of the service's own errors
    null_lists: bool = False  # an empty list is sent as null
    tokens_expired: bool = False
    api_version: str = ""  # sent as X-Kaggle-APIVersion

    # Push
    refusal: str = ""  # HTTP 200 with this `error`
    invalid: Mapping[str, Sequence[str]] = field(default_factory=dict)  # {"invalidModelSources": [...]}
    source_limit: int = 1_000_000  # bytes
    gpu_slots: int = 2
    cpu_slots: int = 5
    slots_linger_s: float = 0  # an ended session still counts for so long

    # Session
    hold: bool = False  # nothing leaves the queue
    queue_s: float = 0
    session_limit_s: float = 12 * 3600
    limit_ends_as: str = "CANCEL_ACKNOWLEDGED"
    ending: Ending | None = None
    wedged: bool = False  # stays RUNNING after its program has ended
    hardware: Mapping[str, object] | None = None  # what FERRY_TEST_HARDWARE's file says
    environment: Mapping[str, str] = field(default_factory=dict)  # what the program finds besides
    stand_in: str = ""  # a script that is executed in the place of what was pushed
    trailer: bool = True  # the converter's lines after the program's own

    # Status
    honours_versions: bool = True  # else a version in a request is ignored
    stale_s: float = 0  # so long after a push an unversioned request is answered for the version before
    unseen_s: float = 0  # so long after its first push a kernel is listed and its status is 404
    status_form: WordForm = "upper"
    status_word: str | None = None  # sent in place of the true word; "" leaves the field out

    # Log
    log_late_s: float = 0  # so long after its end a session has no log yet
    log_empty: bool = False
    log_form: LogForm = "array"
    torn_every: int = 5  # each so-manieth line is two records; 0 for whole lines

    # Stream
    stream: bool = True  # else 404
    stream_cuts: list[int] = field(default_factory=list)  # the next connections end after so many records
    stream_replays: bool = True  # else a later connection begins where the one before ended
    stream_charset: bool = True
    stream_noise: bool = False  # comments, ids and event names between the records
    stream_wait_s: float = 60  # how long it waits for a queued session, then 404
    stream_silence_s: float = 0  # before the first record of each connection

    # Outputs
    page_limit: int = 200
    page_repeats: bool = False  # each page is sent twice
    token_repeats: bool = False  # the next page's token is always the same: pages without an end
    link_life_s: float = 3600
    dead_link_status: int = 403  # an expired link is an HTML page; 200 exists
    short_by: int = 0  # bytes missing at the end of each file
    short_openly: bool = False  # Content-Length owns up to it; else the connection is cut
    hostile_files: Mapping[str, bytes] = field(default_factory=dict)  # listed besides, under any name
    keeps_failed_outputs: bool = True

    # Quota
    gpu_used_s: float = 0
    gpu_total_s: float = 30 * 3600
    quota_without_used: bool = False

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def next_fault(self, call: str) -> Fault | None:
        """Take the first fault that hits this request."""
        with self._lock:
            for fault in self.faults:
                if fault.call not in (call, "*") or fault.times == 0:
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    def next_stream_cut(self) -> int | None:
        """Take the number of records after which this connection is cut, None for never."""
        with self._lock:
            return self.stream_cuts.pop(0) if self.stream_cuts else None
