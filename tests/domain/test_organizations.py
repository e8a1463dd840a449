"""Organizations' names."""

import pytest

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.organizations.organization import created, name_checked, name_of, not_yet_created


@pytest.mark.parametrize("name", ["a", "7", "acme", "Acme-Inc_2", "a" * 63, "0-_"])
def test_a_name_has_letters_digits_and_dashes(name: str) -> None:
    assert name_checked(name) == name


@pytest.mark.parametrize(
    "name", ["", "-a", "_a", "a" * 64, "a b", "a/b", "a.b", "é", "a\n", "٣", "a?", "../a", "a\x00", "a%20b"]
)
def test_a_name_that_would_make_trouble_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="an organization's name has 1 to 63 letters"):
        name_checked(name)


def test_an_organization_is_created_by_an_event_unless_there_was_one() -> None:
    assert created("acme") == NewEvent(type=("organization", "created"), key="/organization/acme")
    assert not_yet_created("acme") == AppendCondition.model_validate(
        {"failIfEventsMatch": {"keys": ["/organization/acme"]}}
    )


def test_the_event_says_which_organization_it_created() -> None:
    key = created("acme").key
    assert key is not None
    assert name_of(key) == "acme"
