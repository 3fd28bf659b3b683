"""The worker: the process that holds the candidate, and the baseline for timing."""

from __future__ import annotations

from harness.serving import serve

if __name__ == "__main__":
    serve("harness.measuring", oom_score=900)
