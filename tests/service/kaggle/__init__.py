"""A loopback service that speaks Kaggle's kernels protocol and really executes what is pushed to it."""
