"""Reads the command line as soon as it is imported, as a script does that was never meant to be a module."""

import argparse

from faulty.sound import UserOptimizedTransformer as Sound

OPTIONS = argparse.ArgumentParser().parse_args()


class UserOptimizedTransformer(Sound):
    """Sound, once it is there."""
