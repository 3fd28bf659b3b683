"""A candidate that leaves its process without a working card costs its own case only."""

import pytest
import torch

from tests.kernel.driving import Kernel, case, kernel, order

__all__ = ["kernel"]

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def test_illegal_access_costs_one_case(kernel: Kernel) -> None:
    """After an access to memory that is nobody's, the next case on the same card passes."""
    before, lost, after = case("sound"), case("illegal_access"), case("sound", "t03")
    log = kernel.run(order(before, lost, after, asked_accelerator="any", devices=1))
    done = log.done[lost.id]
    assert (done.status, log.samples(lost)) == ("error", []), (done.error_kind, done.error)
    assert "illegal memory access" in done.error
    assert [log.done[sound.id].status for sound in (before, after)] == ["passed", "passed"]
