"""Where runs lie on disk, and how a file is written whole. Imports little: a listing starts with it."""

from __future__ import annotations

import os
import re
from pathlib import Path

RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
PUBLISHED = "published"  # the folder in the runs' root with those kept as evidence


def atomic_write(path: Path, content: str | bytes) -> None:
    """Write `content` to `path` whole or not at all, through a temporary file in the same folder.

    What is no regular file, such as /dev/stdout, is written to and not replaced.
    """
    import tempfile

    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def runs_root() -> Path:
    """Return the folder of all runs: `FERRY_RUNS`, else `runs/` of the project or checkout, else `./runs`."""
    if configured := os.environ.get("FERRY_RUNS"):
        return Path(configured).expanduser()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "ferry.toml").exists() or (folder / ".git").exists():
            return folder / "runs"
    return here / "runs"
