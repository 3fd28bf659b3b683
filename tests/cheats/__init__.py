"""Entries that try to win without being faster, and honest ones that look odd; the route names the one to be.

ferry push --backend manual --model tests/cheats --route early_return --route by_address … --protocol strict
"""

import importlib
import os
from pathlib import Path

NAME = os.environ.get("LEVER_ROUTE", "plain")
_folder = next(Path(__file__).parent.glob(f"*/{NAME}.py")).parent.name
_entry = importlib.import_module(f"{__name__}.{_folder}.{NAME}")

UserOptimizedTransformer = _entry.UserOptimizedTransformer
UserOptimizedTransformer.route_ran = NAME
if hasattr(_entry, "copy_model_weights"):
    copy_model_weights = _entry.copy_model_weights
