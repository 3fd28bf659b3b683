"""The judge: the process that draws weights and inputs and gates outputs. The candidate never runs in it."""

from __future__ import annotations

from harness.serving import serve

if __name__ == "__main__":
    serve("harness.judging", oom_score=500)
