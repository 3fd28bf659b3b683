"""Who works beside a candidate's calls is seen by the time on a core that it gets."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.company import Helpers, Threads
from harness.cores import cores_here, queued_ns
from harness.limits import CaseFailureError

IDLE = "import sys; sys.stdin.read()"
BUSY = "while True: pass"
STARTS = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True, stdin=0)
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
"""


@contextmanager
def worker(code: str) -> Iterator[Helpers]:
    """The helpers of a process that has started another one, in a session of its own, that runs the code."""
    command = [sys.executable, "-c", STARTS, code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdin
        child = int(process.stdout.readline())
        helpers = Helpers(process.pid, None, b"MARK=none")
        assert helpers.pids == {child}
        yield helpers
        process.stdin.close()


def spin(seconds: float) -> None:
    """Work for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_process_that_works_meanwhile_is_refused() -> None:
    """A descendant that keeps a core busy while calls are timed is a finding, with both times."""
    with worker(BUSY) as helpers:
        helpers.settle(patience_s=0.3)
        with pytest.raises(CaseFailureError, match="while calls were timed") as caught:
            for _ in range(60):  # others may leave it little of a core at first
                helpers.worked_s = helpers.wall_s = 0.0
                helpers.begin()
                time.sleep(1.0)
                helpers.end()
    assert (caught.value.status, caught.value.kind) == ("disqualified", "helpers")


def test_process_that_waits_is_nobodys_business() -> None:
    """A descendant that is idle, as torch's compiling ones are, does not count, and settles at once."""
    with worker(IDLE) as helpers:
        helpers.settle(patience_s=20.0)
        helpers.begin()
        spin(0.3)
        helpers.end()
        helpers.refuse_on_card({helpers.worker})
        helpers.refuse_on_card(helpers.pids)
        with pytest.raises(CaseFailureError, match="holds the card"):
            helpers.refuse_on_card({helpers.worker, *helpers.pids})


def test_thread_that_works_meanwhile_is_told() -> None:
    """A thread that holds the interpreter while the baseline is called is told, one that waits is not."""
    for works in (True, False):
        end, waits = threading.Event(), threading.Event()

        def run(end: threading.Event = end, waits: threading.Event = waits, works: bool = works) -> None:
            while works and not end.is_set():
                pass
            waits.wait()

        thread = threading.Thread(target=run)
        thread.start()
        threads = Threads()
        threads.begin()
        spin(0.3)
        threads.end()
        end.set()
        waits.set()
        thread.join()
        assert bool(threads.complaint()) is works


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system keeps no such books")
def test_time_without_a_core_is_known() -> None:
    """Of two processes that want one core each waits for about half of the time, and the kernel tells."""
    core = min(cores_here())
    command = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"]
    both = [subprocess.Popen(command) for _ in range(2)]
    try:
        end = time.monotonic() + 60
        while min(queued_ns(process.pid) for process in both) < 100_000_000:
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        for process in both:
            process.kill()
            process.wait()
    assert queued_ns(both[0].pid) == 0
