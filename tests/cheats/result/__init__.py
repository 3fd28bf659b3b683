"""Tricks with what is computed at all, and with whose memory it is in."""
