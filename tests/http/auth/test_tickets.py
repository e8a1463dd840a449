"""Tickets are valid for one page, for one minute, in one process."""

import jwt
import pytest

from chalicelib.domain.errors import Forbidden
from chalicelib.http.auth.tickets import LIFETIME_S, Tickets
from chalicelib.http.auth.tokens import BadToken, LocalKey
from tests.services.fakes import World


@pytest.fixture(name="world")
def fixture_world() -> World:
    return World()


def test_verify_returns_log_of_the_ticket(world: World) -> None:
    tickets = Tickets(world.clock)
    assert tickets.verify(tickets.issue(7, "report"), "report") == 7


def test_ticket_expires_after_one_minute(world: World) -> None:
    tickets = Tickets(world.clock)
    ticket = tickets.issue(7, "report")
    world.now_ms += LIFETIME_S * 1000 - 1
    assert tickets.verify(ticket, "report") == 7
    world.now_ms += 1
    with pytest.raises(Forbidden, match="has expired"):
        tickets.verify(ticket, "report")


def test_ticket_is_refused_for_other_report(world: World) -> None:
    tickets = Tickets(world.clock)
    with pytest.raises(Forbidden, match="has expired"):
        tickets.verify(tickets.issue(7, "report"), "costs")


def test_ticket_of_other_process_is_refused(world: World) -> None:
    with pytest.raises(Forbidden, match="this link is invalid"):
        Tickets(world.clock).verify(Tickets(world.clock).issue(7, "report"), "report")


@pytest.mark.parametrize(
    "ticket", ["", "a.b.c", "ü", jwt.encode({"server": 7, "name": "report"}, "", algorithm="none")]
)
def test_invalid_ticket_is_refused(ticket: str, world: World) -> None:
    with pytest.raises(Forbidden, match="this link is invalid"):
        Tickets(world.clock).verify(ticket, "report")


def test_ticket_is_not_a_token(world: World) -> None:
    tickets = Tickets(world.clock)
    with pytest.raises(BadToken):
        LocalKey(tickets._key).claims(tickets.issue(7, "report"))
