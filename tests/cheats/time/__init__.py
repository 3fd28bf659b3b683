"""Tricks with when the work is done, and with how fast the baseline is."""
