"""Never comes back, and has a helper in a session of its own that never does either."""

import subprocess
import time

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Waits for nothing."""

    def forward(self, x, valid_token_mask=None):
        """Wait."""
        subprocess.Popen(["sleep", "86399"], start_new_session=True)
        while True:
            time.sleep(60)
