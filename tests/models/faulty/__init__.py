"""Entries that go wrong, one fault a file; LEVER_FAULT names the one to be. Without it the entry is sound."""

import importlib
import os

_fault = importlib.import_module(f"{__name__}.{os.environ.get('LEVER_FAULT', 'sound')}")
UserOptimizedTransformer = _fault.UserOptimizedTransformer
