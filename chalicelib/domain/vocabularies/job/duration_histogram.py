"""A histogram of durations with logarithmic buckets, of which only those with a duration are stored.

Bucket `k` counts the durations from `GROWTH**(k-1)` (exclusive) to `GROWTH**k` seconds. It stands for a duration that
differs from all of them by at most `MAX_RELATIVE_ERROR`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

MAX_RELATIVE_ERROR = 0.05
GROWTH = (1 + MAX_RELATIVE_ERROR) / (1 - MAX_RELATIVE_ERROR)
MIN_DURATION_S = 0.001
"""Shorter durations count as this one."""

Histogram = Mapping[str, int]
"""Number of durations by bucket. Keys are texts, because the histogram is stored as JSON."""


def bucket_of(duration_s: float) -> str:
    return str(math.ceil(math.log(max(duration_s, MIN_DURATION_S), GROWTH)))


def add_count(histogram: Histogram, duration_s: float, count: int) -> dict[str, int]:
    """The histogram with `count` more durations in a bucket. Empty buckets are left out."""
    bucket = bucket_of(duration_s)
    changed = {**histogram, bucket: histogram.get(bucket, 0) + count}
    return {name: number for name, number in changed.items() if number > 0}


def percentile(histograms: Iterable[Histogram], percent: float) -> float | None:
    """The duration in seconds that `percent` of the durations do not exceed. None without any duration."""
    counts = Counter[int]()
    for histogram in histograms:
        counts.update({int(bucket): number for bucket, number in histogram.items()})
    rank = math.ceil(counts.total() * percent / 100)
    for bucket, number in sorted(counts.items()):
        rank -= number
        if rank <= 0:
            return float(2 * GROWTH**bucket / (GROWTH + 1))
    return None
