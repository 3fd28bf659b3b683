"""Tests against whole services. A package, lest pytest put a folder that holds a `kaggle` on the path."""
