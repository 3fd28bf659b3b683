"""Needs a package that is not there."""

import a_package_that_nobody_has

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Never reached."""

    package = a_package_that_nobody_has
