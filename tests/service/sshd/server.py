"""A real sshd on a free port of loopback: own host key, own user key, own client configuration.

Nothing of the machine's own set-up is read or changed. Started by root it serves root, or, in a mount
namespace with a list of users of its own, a user whom the machine does not know.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.commands import OverSsh

STRANGER = 4242  # number of the user whom the machine does not know
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {home}/host_key
PidFile {home}/sshd.pid
AuthorizedKeysFile {home}/authorized_keys
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
MaxSessions 100
PrintMotd no
Subsystem sftp internal-sftp
"""
CLIENT = """\
Host {name}
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {home}/user_key
  HostKeyAlias {alias}
"""
EVERY = """\
Host *
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {home}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""
# A list of users of its own, and a /run that has what a sshd of root wants.
ALONE = """\
mount --bind "$1/passwd" /etc/passwd || exit
shift
exec setpriv --reuid {user} --regid {user} --clear-groups "$@"
"""


class Sshd:
    """A started sshd; `home` holds its files and, in `home/there`, what the user there may write to."""

    def __init__(self, home: Path, stranger: bool = False, settings: str = "") -> None:
        self.home = home
        self.user = "stranger" if stranger else getpass.getuser()
        self.there = home / "there"
        self.there.mkdir()
        self.port = free_port()
        self.hosts: dict[str, int] = {}
        for name in ("host_key", "user_key"):
            make_key(home / name)
        (home / "authorized_keys").write_text((home / "user_key.pub").read_text())
        (home / "sshd_config").write_text(SERVER.format(port=self.port, home=home) + settings)
        self.trust()
        self.name("box1", self.port)
        self._process = self._start(stranger)

    @property
    def config(self) -> Path:
        """The client's configuration file."""
        return self.home / "ssh_config"

    @property
    def environment(self) -> dict[str, str]:
        """What makes the ssh of a process, and of its children, know this machine."""
        return {"FERRY_SSH": f"ssh -F {self.config}"}

    @property
    def pid(self) -> int:
        """The number of the sshd that listens."""
        return self._process.pid

    def name(self, host: str, port: int) -> None:
        """Let the client know `host` as what listens on a port of loopback, with this sshd's host key."""
        self.hosts[host] = port
        known = [
            CLIENT.format(name=name, port=port, user=self.user, home=self.home, alias="box1")
            for name, port in self.hosts.items()
        ]
        self.config.write_text("".join(known) + EVERY.format(home=self.home))

    def trust(self, key: str = "host_key") -> None:
        """Let the client know this host key for the machine, and no other."""
        (self.home / "known_hosts").write_text(f"box1 {(self.home / f'{key}.pub').read_text()}")

    def connection(self, host: str = "box1") -> int:
        """Return the number of the process that holds the connection which commands to `host` share."""
        folder = Path(os.environ["XDG_RUNTIME_DIR"], "ferry")
        command = ["ssh", "-F", str(self.config), f"-oControlPath={folder}/%C", "-O", "check", host]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        return int(told.partition("pid=")[2].partition(")")[0])

    def project(self, home: Path, **keys: object) -> Path:
        """Make a project whose profile `box1` is this machine, with this Python and these keys besides."""
        profile = {"host": "box1", "python": sys.executable, "folder": str(self.there), **keys}
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in profile.items()]
        file = home / "ferry.toml"
        file.write_text("[backends.ssh.box1]\n" + "".join(lines))
        return file

    def runner(self, host: str = "box1") -> OverSsh:
        """Return what runs programs there."""
        return OverSsh(host, f"ssh -F {self.config}")

    def _start(self, stranger: bool) -> subprocess.Popen[bytes]:
        command = [SSHD, "-D", "-E", str(self.home / "sshd.log"), "-f", str(self.home / "sshd_config")]
        if stranger:
            line = f"stranger:x:{STRANGER}:{STRANGER}::{self.there}:/bin/sh\n"
            (self.home / "passwd").write_text(Path("/etc/passwd").read_text() + line)
            for path in (self.home, *self.home.rglob("*")):
                os.chown(path, STRANGER, STRANGER)
            script = ALONE.format(user=STRANGER)
            command = ["unshare", "--mount", "sh", "-c", script, "sh", str(self.home), *command]
        elif os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where sshd shuts its unprivileged half in
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        end = time.monotonic() + 10
        while not _listens(self.port):
            assert process.poll() is None, (self.home / "sshd.log").read_text()
            assert time.monotonic() < end, "sshd does not listen"
            time.sleep(0.02)
        return process

    def close(self) -> None:
        """End sshd, and connections that are shared in its home; other sessions end with their clients."""
        hang_up(self.home)
        self._process.terminate()
        self._process.wait(10)


@contextlib.contextmanager
def sshd(stranger: bool = False, settings: str = "") -> Iterator[Sshd]:
    """Start a sshd in a short folder that every user may enter; skip where there is none, but not in CI.

    `settings` are further lines of its configuration.
    """
    if not Path(SSHD).exists() or shutil.which("ssh") is None:
        assert os.environ.get("CI") != "true", "install openssh-server and openssh-client"
        pytest.skip("there is no sshd here: install openssh-server and openssh-client")
    home = Path(tempfile.mkdtemp(prefix="sshd-"))
    home.chmod(0o755)
    server = Sshd(home, stranger, settings)
    try:
        yield server
    finally:
        server.close()
        shutil.rmtree(home, ignore_errors=True)


def hang_up(runtime: Path) -> None:
    """End the shared connections whose sockets are in a private folder."""
    for path in runtime.glob("ferry/*"):
        command = ["ssh", "-F", "none", "-q", "-S", str(path), "-O", "exit", "nobody"]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def make_key(path: Path) -> None:
    """Make a key without a passphrase."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)
