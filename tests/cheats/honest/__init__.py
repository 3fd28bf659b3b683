"""Unusual, and no trick: none of these may ever be disqualified."""
