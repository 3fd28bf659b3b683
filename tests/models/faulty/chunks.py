"""Sound, in chunks of three rows of the batch, with a difference that it reports."""

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Reports its chunks."""

    chunk_rows = 3

    def __init__(self, config):
        super().__init__(config)
        self.compile_s = 0.25

    def chunk_difference(self, x, valid_token_mask):
        """A figure that the test knows."""
        return 0.125
