"""Every read is exact, wherever the projector is, whatever happens to it, and whoever writes meanwhile."""

from collections import Counter
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.exactness.machine import Reads, Store

EXAMPLES = {"sqlite": (50, 40), "moto": (4, 20)}
"""How many runs of the machine, and of how many steps; moto is slow."""
ALWAYS_TAKEN = (
    "tail used",
    "read object",
    "read latest",
    "read block",
    "read sessions",
    "object ahead of its checkpoint",
    "skipped back",
    "crashed",
    "rebuilt",
)
TAKEN = {
    "moto": ALWAYS_TAKEN,
    "sqlite": (
        *ALWAYS_TAKEN,
        "skipped ahead",
        "latest ahead of its checkpoint",
        "block ahead of its checkpoint",
        "refused",
        "rebuild crashed",
        "append refused",
        "append granted",
        "raced by append",
        "raced by project",
        "raced by catch up",
        "raced by rebuild",
    ),
}
"""The paths that matter: had they not been taken, this would prove nothing."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so small that a few commits go beyond all of them."""
    monkeypatch.setattr("chalicelib.services.present.NEAR", 3)
    monkeypatch.setattr("chalicelib.domain.blocks.BLOCK_BITS", 2)
    monkeypatch.setattr("chalicelib.domain.blocks.MOST_SUBTYPES", 4)
    monkeypatch.setattr("chalicelib.domain.object_views.SESSIONS_AT_HAND", 2)
    monkeypatch.setattr("chalicelib.store.sqlite.log.PAGE_COMMITS", 5)
    monkeypatch.setattr("chalicelib.store.sqlite.views.PAGE_RECORDS", 3)
    monkeypatch.setattr("chalicelib.store.dynamodb.views.FIRST_PAGE_RECORDS", 2)


@pytest.mark.parametrize("store", ["sqlite", "moto"])
def test_every_read_is_exact(store: str, request: pytest.FixtureRequest) -> None:
    examples, steps = EXAMPLES[store]
    seen: Counter[str] = Counter()
    log, views = request.getfixturevalue(f"{store}_log"), request.getfixturevalue(f"{store}_views")
    shared = Store(log, views, count(1), seen)
    machine: Any = partial(Reads, shared)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],  # to shrink takes minutes; who looks for a failure adds Phase.shrink
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(dict(seen))
    assert [path for path in TAKEN[store] if not seen[path]] == []
