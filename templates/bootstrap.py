"""Unpack the files to a temporary folder, check them against the bundle's hash, run their driver."""

import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading


def digest(files):
    """Return the bundle's hash: the SHA-256 of the text that `sha256sum` prints for its files, sorted."""
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def unpack(files, folder):
    """Write the texts to real files; return what now stands there."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return {name: (folder / name).read_bytes() for name in files}


def drive(command, environment):
    """Run the driver, show each line at once, pass stop signals on; return its exit code after its end."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a legacy code page must not end the run
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    options.update(env=environment, encoding="utf-8", errors="replace")
    with subprocess.Popen(command, **options) as driver:
        on_main = threading.current_thread() is threading.main_thread()
        stops = (signal.SIGINT, signal.SIGTERM) if on_main else ()
        before = {stop: signal.signal(stop, lambda number, _: driver.send_signal(number)) for stop in stops}
        try:
            for line in driver.stdout:
                print(line, end="", flush=True)
            code = driver.wait()
        finally:
            for stop, handler in before.items():
                signal.signal(stop, handler)
    return code if code >= 0 else 128 - code


def carry_out(order, run, files, bundle_sha256, args=()):
    """Unpack and check this kernel's files, then run their driver; return its exit code, or 2 if altered."""
    with tempfile.TemporaryDirectory(prefix="ferry-", ignore_cleanup_errors=True) as folder:
        home = pathlib.Path(folder)
        home.chmod(0o711)  # a candidate that runs as another user finds its files by name
        found = digest(unpack(files, home / "files"))
        if found != bundle_sha256:
            print(f"stopped: this kernel was altered: its files have hash {found}, not {bundle_sha256}")
            return 2
        if "--check" in args:
            for path in sorted(home.rglob("*.py")):
                compile(path.read_bytes(), str(path), "exec")
            print(f"checked: {len(files)} files, bundle {bundle_sha256}")
            return 0
        (home / "ORDER.json").write_text(order, encoding="utf-8")
        (home / "RUN.json").write_text(run, encoding="utf-8")
        # Running the folder, not `-m`, keeps a `harness/` in the working folder from taking its place.
        command = [sys.executable, "-u", str(home / "files"), str(home / "ORDER.json")]
        python_path = os.pathsep.join(filter(None, [str(home / "files"), os.environ.get("PYTHONPATH")]))
        return drive(
            [*command, "--run", str(home / "RUN.json"), *args], {**os.environ, "PYTHONPATH": python_path}
        )
