"""Sound; a process of its own tries to get at what is the driver's, and its note says what it got."""

import json
import os
import signal
import subprocess
from pathlib import Path

from faulty.sound import UserOptimizedTransformer as Sound

ROOT = Path(__file__).parents[1]


def tried(act):
    """What a deed came to: its result, or the name of what stopped it."""
    try:
        return act()
    except OSError as problem:
        return type(problem).__name__


def aside(act):
    """What a fork gets, in which nobody looks out for what it does."""
    read, write = os.pipe()
    if not (child := os.fork()):
        os.write(write, json.dumps(act()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        return said.read().decode()


def memory_of(pid):
    """The first bytes of a process's memory that are its own to write."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if " rw-p " in line:
            with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
                memory.seek(int(line.partition("-")[0], 16))
                return len(memory.read(16))
    return 0


class UserOptimizedTransformer(Sound):
    """Looks where nothing is its own."""

    def __init__(self, config):
        super().__init__(config)
        driver = os.getppid()
        deeds = {
            "memory": lambda: memory_of(driver),
            "environment": lambda: len(Path(f"/proc/{driver}/environ").read_bytes()),
            "stdout": lambda: os.write(os.open(f"/proc/{driver}/fd/1", os.O_WRONLY), b""),
            "signal": lambda: os.kill(driver, signal.SIGCONT),
            "harness": lambda: (ROOT / "harness" / "gate.py").open("ab").close(),
            "outputs": lambda: [str(path) for path in Path("/dev/shm").glob("ferry-*/out/*")],
            "own folder": lambda: Path("mine").write_text("1"),
        }
        self.route_note = aside(lambda: {name: tried(deed) for name, deed in deeds.items()})
        # In another session, with nothing in its environment that tells whose it is.
        subprocess.Popen(["sleep", "86397"], env={}, start_new_session=True)
