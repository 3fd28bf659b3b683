"""Run a program that sees its working folder as `/kaggle/working`, as on the service."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

# A mount namespace of its own whose root is this machine's with `/kaggle` added; no root rights are needed.
_SCRIPT = """
set -e
working=$1 root=$2; shift 2
mount -t tmpfs none "$root"
for entry in /* /.[!.]*; do
    if [ -L "$entry" ]; then cp -P "$entry" "$root$entry"
    elif [ -d "$entry" ]; then mkdir "$root$entry" && mount --rbind "$entry" "$root$entry"
    elif [ -f "$entry" ]; then : >"$root$entry" && mount --bind "$entry" "$root$entry"
    fi
done
mkdir -p "$root/kaggle/working" "$root/kaggle/input"
mount --bind "$working" "$root/kaggle/working"
PATH=$PATH:/usr/sbin:/sbin exec chroot "$root" /bin/sh -c 'cd /kaggle/working && exec "$@"' sh "$@"
"""


def rooted(command: Sequence[str], working: Path, root: Path) -> list[str]:
    """Return `command` as it must be started, in `working`, to find `/kaggle/working` there.

    `root` is an empty folder. Where namespaces are not to be had the command stays as it is.
    """
    return _rooted(command, working, root) if can_root() else list(command)


@functools.cache
def can_root() -> bool:
    """Whether this machine lets us map `/kaggle/working`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "root").mkdir()
        command = _rooted(["pwd"], folder, folder / "root")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.SubprocessError):
            return False
    return done.stdout.strip() == "/kaggle/working"


def _rooted(command: Sequence[str], working: Path, root: Path) -> list[str]:
    namespaces = ["unshare", "--user", "--map-root-user", "--mount"]
    return [*namespaces, "sh", "-c", _SCRIPT, "sh", str(working), str(root), *command]
