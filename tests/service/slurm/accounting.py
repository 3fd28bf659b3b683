"""Accounting for a cluster: a MariaDB of its own and slurmdbd. For trying out by hand; CI has none."""

from __future__ import annotations

import socket
import subprocess

from tests.service.slurm.daemons import Cluster, free_ports, until_started

SETTINGS = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
PidFile={folder}/slurmdbd.pid
LogFile={folder}/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StorageLoc=slurm_acct_db
"""
GRANT = b"CREATE USER slurm@127.0.0.1; GRANT ALL ON *.* TO slurm@127.0.0.1;"


def start(cluster: Cluster) -> int:
    """Start database and slurmdbd, as the cluster's user and its children; return slurmdbd's port."""
    port, database = free_ports(2)
    home = cluster.folder / "database"
    socket_file = home / "sock"
    install = ["mariadb-install-db", "--no-defaults", f"--datadir={home}/data", "--skip-test-db"]
    install.append("--auth-root-authentication-method=normal")
    home.mkdir()
    cluster.give(home)
    subprocess.run([*cluster.prefix, *install], check=True, capture_output=True, cwd=home)
    where = [f"--datadir={home}/data", f"--port={database}", f"--socket={socket_file}"]
    options = ["--bind-address=127.0.0.1", f"--pid-file={home}/pid", "--skip-name-resolve"]
    own_user = [f"--user={cluster.user}"]  # mariadbd will not be root unless it is told so
    cluster.launch("mariadbd", "--no-defaults", *where, *options, *own_user)
    until_started(lambda: _listens(database))
    client = ["mariadb", "--no-defaults", "-u", "root", f"--socket={socket_file}"]
    subprocess.run([*cluster.prefix, *client], check=True, input=GRANT)
    settings = cluster.folder / "slurmdbd.conf"
    settings.write_text(
        SETTINGS.format(folder=cluster.folder, port=port, user=cluster.user, database=database)
    )
    settings.chmod(0o600)
    cluster.give(cluster.folder)
    cluster.launch("slurmdbd", "-D")
    until_started(lambda: _listens(port))
    return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
