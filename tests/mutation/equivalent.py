"""Mutations that no test can notice, because the program behaves the same. Each has its reason.

They are counted separately, neither as noticed nor as survivors.
"""

from collections.abc import Mapping

EQUIVALENT: Mapping[str, str] = {
    "chalicelib/services/reading/log_reader.py: if page.texts and sum(map(len, page.texts)) <= MAX_CACHED_PAGE_BYTES:: "
    "sum(map(len, page.texts)) <= MAX_CACHED_PAGE_BYTES -> (sum(map(len, page.texts)) < MAX_CACHED_PAGE_BYTES)": (
        "Whether a page of exactly the limit is cached changes no result."
    ),
    "chalicelib/services/jobs/publish_plan.py: if len(self._known_jobs) > MAX_KNOWN_JOBS:: "
    "len(self._known_jobs) > MAX_KNOWN_JOBS -> (len(self._known_jobs) >= MAX_KNOWN_JOBS)": (
        "Whether the cache is cleared at its limit or one job later changes no result."
    ),
    "chalicelib/domain/exports/export.py: indent=2,: 2 -> 3": "The indentation of a JSON file has no meaning.",
}
"""Reasons by `Mutation.key`."""
