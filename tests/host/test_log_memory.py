"""Reading a log takes no more memory than a small process has, whatever the log's size and shape."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.written_logs import array, plain, writes

MEGABYTES = 300
FEWER_MEGABYTES = 60  # of what is slow to read because all of it is damaged
LIMIT_MIB = 64

READ_IT = """
import sys
from pathlib import Path
from builder.records import read_records

records = read_records([Path(sys.argv[1])])
status = Path("/proc/self/status").read_text()  # the peak of this process alone; getrusage adds its parent's
peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
print(peak_kib // 1024, records.complete)
"""

LINE = b"step 000000123  loss 0.123456 " + b"." * 48 + b"\n"
RECORD = b',{"stream_name":"stdout","time":12.345678,"data":"step 123  loss 0.12345678901\\n"}\n'
KNOCKOUT = b"\\u00e9\\n" + b"x" * 1000 + "é".encode() * 20


def many(piece: bytes, megabytes: int = MEGABYTES) -> Iterator[bytes]:
    """Repeat a piece until there are enough megabytes."""
    block = piece * (1_000_000 // len(piece))
    return (block for _ in range(megabytes))


SHAPES: dict[str, Callable[[], Iterator[bytes]]] = {
    "plain": lambda: many(LINE),
    "no line end": lambda: many(b"x"),
    "progress bar": lambda: many(b" 50% |####    |\r"),
    "records": lambda: iter([array(writes())[:-2], *many(RECORD), b"]"]),
    "one record": lambda: iter([b'[{"stream_name":"stdout","data":"', *many(KNOCKOUT), b'"}]']),
    "one broken record": lambda: iter([b'[{"stream_name":"stdout","time":"', *many(KNOCKOUT)]),
    "quotes": lambda: iter([b'[{"stream_name":"stdout","data":"', *many(b'"')]),
    "record starts": lambda: many(b'{"stream_name":"stdout","data":', FEWER_MEGABYTES),
    "markers": lambda: many(b"@@ferry@@ " + b"y" * 5000 + b"\n", FEWER_MEGABYTES),
    "not UTF-8": lambda: many(b"caf\xe9 " * 10 + b"\n", FEWER_MEGABYTES),
}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize("shape", SHAPES)
def test_memory_is_bounded(shape: str, tmp_path: Path) -> None:
    """A log of hundreds of megabytes is read in 64 MiB, one of a single line or a single record too."""
    log = tmp_path / "log.raw"
    with log.open("wb") as file:
        file.writelines(SHAPES[shape]())
        file.write(b"\n" + plain(writes()))
    done = subprocess.run(
        [sys.executable, "-c", READ_IT, str(log)], capture_output=True, text=True, check=True
    )
    log.unlink()
    peak_mib, complete = done.stdout.split()
    assert int(peak_mib) <= LIMIT_MIB
    assert complete == "True"
