"""Names and creation of organizations."""

import pytest

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.organizations.organization import (
    DIRECTORY_SERVER,
    check_name,
    configuration_log,
    creation_condition,
    creation_event,
    inbox_log,
    is_configuration_log,
    name_from_key,
)


@pytest.mark.parametrize("name", ["a", "7", "acme", "Acme-Inc_2", "a" * 63, "0-_"])
def test_check_name_valid_name_is_returned(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "-a", "_a", "a" * 64, "a b", "a/b", "a.b", "é", "a\n", "٣", "a?", "../a", "a\x00", "a%20b"]
)
def test_check_name_invalid_name_raises_bad_input(name: str) -> None:
    with pytest.raises(BadInput, match="an organization's name has 1 to 63 letters"):
        check_name(name)


def test_creation_event_and_condition_share_key() -> None:
    assert creation_event("acme") == NewEvent(type=("organization", "created"), key="/organization/acme")
    assert creation_condition("acme") == AppendCondition.model_validate(
        {"failIfEventsMatch": {"keys": ["/organization/acme"]}}
    )


def test_name_from_key_returns_created_organization() -> None:
    key = creation_event("acme").key
    assert key is not None
    assert name_from_key(key) == "acme"


@pytest.mark.parametrize("server", [1, 2, 7])
def test_is_configuration_log_excludes_events_and_inboxes(server: int) -> None:
    assert is_configuration_log(DIRECTORY_SERVER)
    assert is_configuration_log(configuration_log(server))
    assert not is_configuration_log(server)
    assert not is_configuration_log(inbox_log(server))
