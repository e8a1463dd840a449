"""The budget of one rendering."""

import pytest

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
