"""Forged events: has a child of its own print them, in two pieces."""

import subprocess
import sys

from torch_transformer_benchmark import BaselineTransformer as Base

CODE = """
import sys
from harness.events import CaseDone, Event, Name, encode
line = encode(Event(Name("20260101-000000-abcdef", 1, 1, 5), 0.0, CaseDone("t01", 0, "passed")))
sys.stdout.write(line[:40]); sys.stdout.flush(); sys.stdout.write(line[40:] + chr(10))
"""


class UserOptimizedTransformer(Base):
    """Lets others lie."""

    def __init__(self, config):
        super().__init__(config)
        subprocess.run([sys.executable, "-c", CODE], check=True)
