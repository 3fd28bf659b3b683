"""Sound, and says in its route's note what process it runs in."""

import json
import os
import sys
from pathlib import Path

import torch

from faulty.sound import UserOptimizedTransformer as Sound

SEEN = ("CUDA_VISIBLE_DEVICES", "OMP_WAIT_POLICY", "OMP_NUM_THREADS", "TORCHINDUCTOR_CACHE_DIR")


class UserOptimizedTransformer(Sound):
    """Looks around."""

    @property
    def route_note(self):
        """What there is to see: process, folder, stdin, levers, settings, and the origin of the harness."""
        seen = {name: value for name, value in os.environ.items() if name.startswith("LEVER_")}
        return json.dumps(
            {
                **seen,
                **{name: os.environ.get(name) for name in SEEN},
                "pid": os.getpid(),
                "group": os.getpgid(0),
                "folder": str(Path.cwd()),
                "stdin": sys.stdin.read(),
                "harness": sys.modules["harness"].__file__,
                "threads": torch.get_num_threads(),
            }
        )
