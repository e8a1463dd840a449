"""The budget of one rendering."""

from types import SimpleNamespace

import pytest

from chalicelib.adapters.templates import limits
from chalicelib.adapters.templates.limits import BASE_COST, Budget, LimitExceeded, Limits


def test_budget_allows_values_up_to_their_limit() -> None:
    budget = Budget(Limits(value_cost=100))
    budget.charge(100)
    with pytest.raises(LimitExceeded, match="makes a value larger than"):
        budget.charge(101)


def test_budget_allows_all_values_up_to_the_total() -> None:
    budget = Budget(Limits(total_cost=2 * (BASE_COST + 10)))
    budget.charge(10)
    budget.charge(10)
    with pytest.raises(LimitExceeded, match="of values"):
        budget.charge(0)


def test_time_of_other_processes_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a template may take long without using the processor."""
    cpu_s = iter([0.0, 0.5, 1.5])
    elapsed_s = iter([0.0, 60.0, 61.0])
    clocks = SimpleNamespace(monotonic=lambda: next(elapsed_s), thread_time=lambda: next(cpu_s))
    monkeypatch.setattr(limits, "time", clocks)
    budget = Budget(Limits(cpu_seconds=1.0))
    budget.charge(1)
    with pytest.raises(LimitExceeded, match="takes longer than 1 s"):
        budget.charge(1)
