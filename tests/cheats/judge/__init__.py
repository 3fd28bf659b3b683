"""Tricks with whoever measures and judges."""
