"""What ssh says when a command could not be run there, as sentences with the next action."""

from __future__ import annotations

import re

from builder.errors import FerryError, InfrastructureError, UsageError
from builder.terminal import one_line

_OWN = 255  # ssh's code for all that is its own

# (what ssh writes, whether asking again may help, what is wrong, what to do); the first that fits.
_TABLE = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        False,
        "{host} has another host key than before: it was set up anew, or somebody is in between",
        "ask whoever runs it; if it is right: ssh-keygen -R {name}, then `ssh {host}` once by hand",
    ),
    (
        r"Host key verification failed|host key is known for",
        False,
        "the host key of {host} is not known here",
        "`ssh {host}` once by hand to accept the key",
    ),
    (
        r"Permission denied \(|Too many authentication failures|Permission denied, please",
        False,
        "{host} lets nobody in from here without a password",
        "`ssh {host} true` must work without a question: see ssh-add and ssh-copy-id",
    ),
    (
        r"Bad configuration option|Bad owner or permissions|unknown option|Can't open user config file",
        False,
        "ssh does not take its configuration: {said}",
        "mend it until `ssh {host} true` works",
    ),
    (
        r"Could not resolve hostname .*(?:not known|nor servname|No address)",
        False,
        "there is no machine called {name}",
        "`ssh {host} true` must work: see ~/.ssh/config",
    ),
    (r"", True, "the connection to {host} failed: {said}", "`ssh {host} true` shows whether it is up"),
)


def failure(host: str, code: int, said: str) -> FerryError:
    """Return the error for a command whose end was not heard; `said` is ssh's own stderr."""
    lines = [one_line(line) for line in said.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else "it broke off"
    words = {"host": host, "name": host.rpartition("@")[2], "said": last}
    if code not in (_OWN, 0) and code < 128:
        return UsageError(
            f"{host} did not run the command: {last}", f"`ssh {host} sh -c true` must work without a word"
        )
    for pattern, again, sentence, hint in _TABLE:
        if re.search(pattern, said):
            kind = InfrastructureError if again else UsageError
            return kind(sentence.format(**words), hint.format(**words))
    raise AssertionError("the last pattern fits everything")
