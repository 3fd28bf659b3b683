"""Runs another route than the one that was asked for, and says so."""

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Falls back."""

    def __init__(self, config):
        super().__init__(config)
        self.route_ran = "eager"
        self.route_note = "no compiler here"
