"""Mutations that no test can notice, because the program behaves the same. Each has its reason.

They are counted separately, neither as noticed nor as survivors.
"""

from collections.abc import Mapping

EQUIVALENT: Mapping[str, str] = {}
"""Reasons by `Mutation.key`."""
