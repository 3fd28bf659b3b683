"""The same tricks by another hand."""
