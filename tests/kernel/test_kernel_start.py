"""The kernel's start with a driver that only says what it sees: unpack, check, relay, stop, clean up."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from builder import kernel
from builder.bundle import START, Bundle
from builder.spec import RunSpec
from harness.events import Order, RunRef, from_plain
from harness.shapes import SHAPES, Case

DRIVER = """
import json, os, pathlib, sys
order, _, run, *rest = sys.argv[1:]
seen = {
    "order": json.loads(pathlib.Path(order).read_text()),
    "run": json.loads(pathlib.Path(run).read_text()),
    "rest": rest,
    "cwd": os.getcwd(),
    "folder": str(pathlib.Path(__file__).parents[1]),
    "python_path": os.environ["PYTHONPATH"].split(os.pathsep),
    "stdin": sys.stdin.read(),
}
print(json.dumps(seen))
print("to stderr", file=sys.stderr)
sys.exit(7)
"""
STOPPABLE = """
import signal, sys, time
def stop(number, frame):
    print("last words after", signal.Signals(number).name)
    sys.exit(3)
signal.signal(signal.SIGINT, stop)
signal.signal(signal.SIGTERM, stop)
print("ready")
while True:
    time.sleep(60)
"""
WAITING = """
import pathlib, time
print("one")
while not pathlib.Path("go").exists():
    time.sleep(0.01)
print("two")
"""
TEXTS = {
    "quote.txt": "x = 'a'",
    "crlf.txt": "a\r\nb\r\n",
    "cr.txt": "a\rb\n",
    "bom.txt": "\ufeffa\n",
    "nul.txt": "a\0b\n",
    "non_ascii.txt": "é 日本\n",
    "backslash.txt": "a\nb\\",
    "triple.txt": "'''\n\"\"\"\n",
    "magic.txt": "%timeit x\n!ls\nwhat?\n",
    "empty.txt": "",
}
REF = RunRef("20261130-120000-abcdef", 2, "0123abc", True)
CASES = (Case(SHAPES["t01"]),)


def bundle_of(driver: str, **texts: str) -> Bundle:
    """A bundle whose driver is the given text."""
    files = {"__main__.py": START.decode(), "harness/__init__.py": "", "harness/driver.py": driver, **texts}
    return Bundle({name: files[name].encode() for name in sorted(files)}, (), "entry", False)


def script_of(folder: Path, driver: str, **texts: str) -> Path:
    """Write the kernel of such a bundle."""
    bundle = bundle_of(driver, **texts)
    path = folder / "kernel.py"
    path.write_text(kernel.script(kernel.make_order(RunSpec("smoke", CASES), bundle), bundle, REF), "utf-8")
    return path


def start(script: Path, *args: str, **options: object) -> subprocess.Popen[str]:
    """Start a kernel in the folder where it lies."""
    command = [sys.executable, str(script), *args]
    return subprocess.Popen(
        command, cwd=script.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def run(script: Path, *args: str) -> tuple[int, str]:
    """Run a kernel to its end; return exit code and output."""
    with start(script, *args) as process:
        output, _ = process.communicate(timeout=60)
    return process.returncode, output


def test_script_hands_everything_to_the_driver_and_cleans_up(tmp_path: Path) -> None:
    """The driver gets order, run and arguments, works in the kernel's folder, and its exit code comes out."""
    code, output = run(script_of(tmp_path, DRIVER), "--deadline", "9m", "--continue", "ferry-events.jsonl")
    line, *rest = output.splitlines()
    seen = json.loads(line)
    assert (code, rest) == (7, ["to stderr"])
    assert from_plain(Order, seen["order"]).cases == CASES
    assert from_plain(RunRef, seen["run"]) == REF
    assert seen["rest"] == ["--deadline", "9m", "--continue", "ferry-events.jsonl"]
    assert seen["cwd"] == str(tmp_path)
    assert seen["python_path"][0] == seen["folder"]
    assert seen["stdin"] == ""
    assert tmp_path not in Path(seen["folder"]).parents
    assert not Path(seen["folder"]).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernel.py"]


def test_python_path_of_the_caller_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch is found by PYTHONPATH it stays found, behind the bundle."""
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    seen = json.loads(run(script_of(tmp_path, DRIVER))[1].splitlines()[0])
    assert seen["python_path"] == [seen["folder"], "elsewhere"]


def test_modules_in_the_working_folder_take_no_ones_place(tmp_path: Path) -> None:
    """A harness/ that lies in the working folder is not what runs."""
    decoy = tmp_path / "harness"
    decoy.mkdir()
    for name in ("__init__.py", "driver.py"):
        (decoy / name).write_text("raise SystemExit('decoy')\n")
    (tmp_path / "runpy.py").write_text("raise SystemExit('decoy')\n")
    assert run(script_of(tmp_path, "print('bundled')")) == (0, "bundled\n")


def test_altered_kernel_stops_at_the_hash_check(tmp_path: Path) -> None:
    """When a file's text no longer has the bundle's hash, nothing of it runs."""
    script = script_of(tmp_path, "print('as built')\n")
    script.write_text(script.read_text("utf-8").replace("as built", "as altered"), "utf-8")
    for args in ([], ["--check"]):
        code, output = run(script, *args)
        assert code == 2
        assert output.startswith("stopped: this kernel was altered: its files have hash ")


def test_texts_arrive_on_disk_as_they_were(tmp_path: Path) -> None:
    """Quotes, line ends, control characters and other alphabets pass the check of the unpacked files."""
    code, output = run(script_of(tmp_path, "print('ran')\n", **TEXTS), "--check")
    assert (code, output.partition(":")[0]) == (0, "checked")


def test_check_compiles_every_file_and_runs_none(tmp_path: Path) -> None:
    """`--check` finds a file that does not compile and does not start the driver."""
    code, output = run(script_of(tmp_path, "print('ran')\n", **{"broken.py": "def f(:\n"}), "--check")
    assert code == 1
    assert "broken.py" in output
    assert "SyntaxError" in output
    assert "ran\n" not in output


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stop_signals_reach_the_driver_and_the_kernel_awaits_its_end(
    tmp_path: Path, stop: signal.Signals
) -> None:
    """A stop sent to the kernel alone lets the driver finish; its last line and exit code come out."""
    with start(script_of(tmp_path, STOPPABLE)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(stop)
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (3, f"last words after {stop.name}\n")


def test_lines_are_shown_while_the_driver_runs(tmp_path: Path) -> None:
    """A line is out before the driver prints the next one."""
    with start(script_of(tmp_path, WAITING)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        (tmp_path / "go").touch()
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "two\n")


def test_killed_driver_gives_the_shells_exit_code(tmp_path: Path) -> None:
    """A driver that a signal ended gives 128 and the signal's number."""
    assert run(script_of(tmp_path, "import os\nos.kill(os.getpid(), 9)\n"))[0] == 128 + signal.SIGKILL


def test_output_that_the_terminal_cannot_show_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where stdout has a legacy code page, a foreign character does not end the run."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code, output = run(script_of(tmp_path, "import sys\nsys.stdout.buffer.write('é日\\n'.encode())\n"))
    assert (code, output) == (0, "\\xe9\\u65e5\n")


def oldest_python() -> str | None:
    """The path of a Python 3.10 on this machine, also of one that lies beside ours, as pyenv puts it."""
    beside = Path(sys.base_prefix).parent.glob("3.10*/bin/python3.10")
    candidates = filter(None, [shutil.which("python3.10"), *map(str, beside)])
    probe = ["-c", "import sys; sys.exit(sys.version_info[:2] != (3, 10))"]
    fits = (path for path in candidates if not subprocess.run([path, *probe], check=False).returncode)
    return next(fits, None)


def test_kernel_runs_on_python_3_10(tmp_path: Path) -> None:
    """The oldest Python of the device side runs the kernel's start."""
    if not (python := oldest_python()):
        pytest.skip("no Python 3.10 here")
    script = script_of(tmp_path, "import sys\nprint(sys.version_info[:2])\n")
    done = subprocess.run([python, script], capture_output=True, text=True, check=True)
    assert done.stdout == "(3, 10)\n"


def test_notebook_shows_the_drivers_lines_and_never_fails(tmp_path: Path) -> None:
    """In a notebook the driver runs without arguments and its exit code is printed, not raised."""
    bundle = bundle_of(DRIVER, **TEXTS)
    text = kernel.notebook(kernel.make_order(RunSpec("smoke", CASES), bundle), bundle, REF)
    notebook = nbformat.from_dict(json.loads(text))  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"stream"}
    seen, *rest = "".join(output.text for output in outputs).splitlines()
    assert json.loads(seen)["rest"] == []
    assert json.loads(seen)["cwd"] == str(tmp_path)
    assert rest == ["to stderr", "the driver ended with exit code 7; the lines above say why"]
