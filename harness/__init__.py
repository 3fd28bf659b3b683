"""The device side: the contest's contract, the gate, the timing, and the processes that run a sweep."""
