"""What the worker sees after the timing, through the real driver on a CPU."""

from harness.events import Profile
from tests.kernel.driving import Kernel, Log, case, kernel, order

__all__ = ["kernel"]


def profiles(log: Log) -> list[Profile]:
    """The profile events, in order."""
    return [event.body for event in log.events if isinstance(event.body, Profile)]


def test_profile_comes_with_each_side(kernel: Kernel) -> None:
    """Asked for, a passed case has the top operators of both sides before its end; a failed one has none."""
    sound, failed = case("sound"), case("wrong_shape")
    log = kernel.run(order(sound, failed, profile=True))
    assert log.done[sound.id].status == "passed", log.done[sound.id].error
    assert [(part.case_id, part.side) for part in profiles(log)] == [
        (sound.id, "baseline"),
        (sound.id, "candidate"),
    ]
    assert "aten::addmm" in {work.name for work in profiles(log)[0].top}
    assert log.done[sound.id].attention_backend == "math"
    assert log.kinds().index("Profile") < log.kinds().index("CaseDone")


def test_unasked_the_attention_is_still_named(kernel: Kernel) -> None:
    """Without the option there are no profiles, and the row knows the attention all the same."""
    sound = case("sound")
    log = kernel.run(order(sound))
    assert profiles(log) == []
    assert log.done[sound.id].attention_backend == "math"


def test_death_while_looking_costs_nothing(kernel: Kernel) -> None:
    """A candidate that ends its process once it is watched keeps its times; the next one has a new worker."""
    both = [case("dies_when_watched", shape) for shape in ("t05", "t01")]
    log = kernel.run(order(*both))
    for asked in both:
        done = log.done[asked.id]
        assert (done.status, done.attention_backend) == ("passed", "")
        assert done.flags["looked"] == "failed: the worker left with exit code 3"
        assert len(log.samples(asked)) > 1
