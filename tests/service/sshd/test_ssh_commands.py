"""Commands over a real ssh: what comes back is the program's own, and what ssh says is told apart."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.commands import Answer, Here, OverSsh, Runner
from builder.errors import FerryError, InfrastructureError, UsageError
from builder.sshfailures import failure
from tests.service.sshd.server import Sshd, free_port, make_key
from tests.service.sshd.wire import Wire

ODD = ["a b", "it's", '"quoted"', "$HOME;`id`", "*", "", "-n", "wörld", "back\\slash"]


@pytest.fixture(params=["here", "root or self", "stranger"])
def place(request: pytest.FixtureRequest) -> Runner:
    """This machine, one that serves whoever runs the tests, and one that serves a user without rights."""
    if request.param == "here":
        return Here()
    name = "strange_machine" if request.param == "stranger" else "machine"
    served: Sshd = request.getfixturevalue(name)
    return served.runner()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_an_answer_is_the_programs_own(place: Runner) -> None:
    """Code, stdout and stderr come back as they were written, stdin arrives, 255 is a code like others."""
    script = "cat; echo trouble >&2; exit 255"
    assert place.run(["sh", "-c", script], stdin=b"\x00\xff\n", timeout_s=20) == Answer(
        255, b"\x00\xff\n", b"trouble\n"
    )


def test_arguments_arrive_as_they_are(place: Runner) -> None:
    """No shell on the way changes an argument."""
    told = place.run(["printf", r"%s\0", *ODD], timeout_s=20).out
    assert told.decode().split("\0")[:-1] == ODD


def test_a_program_that_is_not_there_is_an_answer(place: Runner) -> None:
    """Its code is 127, as a shell says it."""
    answer = place.run(["no-such-program"], timeout_s=20)
    assert answer.code == 127
    assert "no-such-program" in answer.complaint


def test_a_stream_comes_as_it_is_written(place: Runner, open_folder: Path) -> None:
    """The first line is here while the program runs, and silence is told."""
    script = 'echo one; until [ -e "$0" ]; do sleep 0.05; done; echo two'
    blocks = place.stream(["sh", "-c", script, str(open_folder / "go")], tick_s=0.1)
    assert next(filter(None, blocks)) == b"one\n"
    assert next(blocks) == b""
    (open_folder / "go").touch()
    assert b"".join(blocks) == b"two\n"


def test_a_stream_of_a_program_that_fails_says_so(place: Runner) -> None:
    """What it had written comes first, then its complaint."""
    blocks = place.stream(["sh", "-c", "echo some; echo no room >&2; exit 3"], tick_s=5)
    assert next(block for block in blocks if block) == b"some\n"
    with pytest.raises(InfrastructureError, match="no room"):
        list(blocks)


def test_a_deadline_holds(place: Runner) -> None:
    """A program that does not end is given up."""
    began = time.monotonic()
    with pytest.raises(InfrastructureError, match="no answer within 1 s"):
        place.run(["sleep", "60"], timeout_s=1)
    assert time.monotonic() - began < 10


def test_commands_share_a_connection_and_do_not_depend_on_it(box1: Sshd) -> None:
    """One login serves the second command, too; when that connection is killed the third makes its own."""
    runner = OverSsh("box1")

    def parent() -> bytes:
        return runner.run(["sh", "-c", "echo $SSH_CONNECTION"], timeout_s=20).out

    first = parent()
    assert parent() == first
    os.kill(box1.connection(), signal.SIGKILL)
    third = parent()
    assert third != first
    runner.hang_up()


def test_a_folder_that_others_may_enter_holds_no_connection(box1: Sshd, tmp_path: Path) -> None:
    """Commands get through all the same, each with a connection of its own."""
    folder = Path(os.environ["XDG_RUNTIME_DIR"], "ferry")
    folder.mkdir()
    folder.chmod(0o755)
    assert OverSsh("box1").run(["true"], timeout_s=20).code == 0
    assert list(folder.iterdir()) == []


def test_the_users_own_way_to_share_is_kept(box1: Sshd, tmp_path: Path) -> None:
    """Where the configuration has a ControlPath, as for a login with a second factor, it is the one used."""
    own = tmp_path / "config"
    own.write_text(f"Include {box1.config}\nHost *\n  ControlPath none\n")
    assert OverSsh("box1", f"ssh -F {own}")._sharing
    own.write_text(f"Host *\n  ControlPath {tmp_path}/s\nInclude {box1.config}\n")
    assert OverSsh("box1", f"ssh -F {own}")._sharing == []


def test_what_a_login_says_is_not_the_programs(box1: Sshd, tmp_path: Path) -> None:
    """A greeting that a shell prints before the command is left out."""
    client = tmp_path / "greeting-ssh"
    client.write_text(f'#!/bin/sh\necho Welcome to this machine\nexec ssh -F {box1.config} "$@"\n')
    client.chmod(0o755)
    greeted = OverSsh("box1", str(client))
    assert greeted.run(["echo", "hello"], timeout_s=20).out == b"hello\n"
    assert b"".join(greeted.stream(["echo", "hello"])) == b"hello\n"


# --- what ssh itself has to say ---------------------------------------------------------------------------


def trouble(host: str) -> FerryError:
    """Return the error that a command comes to."""
    with pytest.raises(FerryError) as caught:
        OverSsh(host).run(["true"], timeout_s=20)
    return caught.value


def test_an_unknown_host_key_is_said_with_the_way_out(box1: Sshd) -> None:
    """Nobody accepts a key for the user; the hint says how to."""
    (box1.home / "known_hosts").write_text("")
    try:
        found = trouble("box1")
    finally:
        box1.trust()
    assert isinstance(found, UsageError)
    assert "host key of box1 is not known" in found.message
    assert "`ssh box1` once by hand" in found.hint


def test_a_changed_host_key_is_not_an_unknown_one(box1: Sshd) -> None:
    """Another key than before is a reason to ask whoever runs the machine."""
    if not (box1.home / "other_key").exists():
        make_key(box1.home / "other_key")
    box1.trust("other_key")
    try:
        found = trouble("box1")
    finally:
        box1.trust()
    assert isinstance(found, UsageError)
    assert "another host key than before" in found.message
    assert "ssh-keygen -R" in found.hint


def test_a_machine_that_lets_nobody_in(box1: Sshd) -> None:
    """Without a key that it knows the hint is about keys, and no question is asked."""
    allowed = box1.home / "authorized_keys"
    before = allowed.read_text()
    allowed.write_text("")
    try:
        found = trouble("box1")
    finally:
        allowed.write_text(before)
    assert isinstance(found, UsageError)
    assert "lets nobody in" in found.message
    assert "ssh-add" in found.hint


def test_a_machine_that_is_down_may_come_back(box1: Sshd) -> None:
    """A refused connection is worth another try, a name that nobody has is not."""
    box1.name("down", free_port())
    found = trouble("down")
    assert isinstance(found, InfrastructureError)
    assert "Connection refused" in found.message
    text = "ssh: Could not resolve hostname bxo1: Name or service not known"
    assert isinstance(failure("bxo1", 255, text), UsageError)
    assert isinstance(
        failure("bxo1", 255, "ssh: Could not resolve hostname bxo1: Try again"), InfrastructureError
    )


def test_a_configuration_that_ssh_does_not_take(tmp_path: Path, box1: Sshd) -> None:
    """What ssh says of its own files is handed on."""
    (tmp_path / "config").write_text("Nonsense yes\n")
    with pytest.raises(UsageError, match="does not take its configuration"):
        OverSsh("box1", f"ssh -F {tmp_path / 'config'}").run(["true"], timeout_s=20)


def test_no_client_and_no_name() -> None:
    """A missing ssh, and what could be taken for an option, are said at once."""
    with pytest.raises(UsageError, match="no-such-ssh cannot be started"):
        OverSsh("box1", "no-such-ssh").run(["true"], timeout_s=20)
    with pytest.raises(UsageError, match="no name of a machine"):
        OverSsh("-oProxyCommand=true")


def test_a_wire_that_is_cut_or_silent(frail: Wire) -> None:
    """Neither hangs, both are worth another try, and the next command gets through."""
    runner = OverSsh("frail")
    runner.run(["true"], timeout_s=20)
    blocks = runner.stream(["sh", "-c", "echo up; sleep 60"], tick_s=0.1)
    assert b"up\n" in blocks
    frail.cut()
    with pytest.raises(InfrastructureError):
        list(blocks)
    frail.silent = True
    with pytest.raises(InfrastructureError, match="frail gave no answer within 1 s"):
        runner.run(["true"], timeout_s=1)
    frail.mend()
    assert runner.run(["echo", "again"], timeout_s=20).out == b"again\n"
    runner.hang_up()
