"""Start the service by hand: `python -m tests.service.kaggle --port 8080`, then set what it prints."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import threading
from importlib.util import find_spec
from pathlib import Path

from tests.service.kaggle.knobs import Knobs
from tests.service.kaggle.server import serving


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.service.kaggle", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    parser.add_argument("--auth", choices=["bearer", "basic"], default="bearer")
    parser.add_argument("--hardware", type=Path, help="a JSON file: what the kernel's hardware probe finds")
    parser.add_argument("--knob", action="append", default=[], metavar="NAME=JSON", help="such as queue_s=5")
    options = parser.parse_args()
    if find_spec("nbclient") is None:
        parser.error("notebooks need nbclient to be executed: pip install -e '.[notebook]'")
    knobs = Knobs()
    if options.hardware:
        knobs.hardware = json.loads(options.hardware.read_text("utf-8"))
    for setting in options.knob:
        name, _, value = setting.partition("=")
        if not hasattr(knobs, name):
            parser.error(f"there is no knob {name}; there are {', '.join(vars(Knobs()))}")
        setattr(knobs, name, json.loads(value))
    ended = threading.Event()
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: ended.set())
    with serving(knobs, options.port) as server:
        print("unset NO_PROXY no_proxy")
        for name, value in server.environment(auth=options.auth).items():
            print(f"export {name}={shlex.quote(value)}", flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
