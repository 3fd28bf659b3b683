"""A fixed bundle gives the kernel that is committed here, byte for byte.

After a wanted change of the templates, run this file from the project's root and commit what it writes:

    PYTHONPATH=. python tests/golden/test_golden_kernel.py
"""

from pathlib import Path

import pytest

from builder import kernel
from builder.bundle import Bundle
from builder.spec import RunSpec
from harness.events import RunRef
from harness.shapes import SHAPES, Case

HERE = Path(__file__).parent
BUNDLE = Bundle(
    {
        "__main__.py": b"import harness.driver\n",
        "entry.py": b"# Ends without a newline, in a quote.\nNAME = 'caf\xc3\xa9 \\\\ '",
        "harness/__init__.py": b"",
        "harness/driver.py": b'"""Reads as it was written."""\n\nprint("a\\tb", \'it\\\'s\')\n',
    },
    left_out=(),
    model="entry",
    own_harness=False,
)
CASES = (Case(SHAPES["t01"]), Case(SHAPES["t05"], "sdpa", {"LEVER_CHUNK": "16"}))
REF = RunRef("20261130-120000-abcdef", 2, "0123abc", True)


def kernels() -> dict[str, bytes]:
    """The files as they come out now: both forms as built, and the script as pushed."""
    order = kernel.make_order(RunSpec("smoke", CASES), BUNDLE)
    texts = {
        "built.ipynb.txt": kernel.notebook(order, BUNDLE),
        "built.py.txt": kernel.script(order, BUNDLE),
        "pushed.py.txt": kernel.script(order, BUNDLE, REF),
    }
    return {name: text.encode() for name, text in texts.items()}


@pytest.mark.parametrize("name", ["built.ipynb.txt", "built.py.txt", "pushed.py.txt"])
def test_kernel_is_the_golden_one(name: str) -> None:
    """Each form has exactly the committed bytes."""
    assert kernels()[name] == (HERE / name).read_bytes()


if __name__ == "__main__":
    for name, content in kernels().items():
        (HERE / name).write_bytes(content)
