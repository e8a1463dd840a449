"""Tickets: good for one page, for a minute, in one process."""

import jwt
import pytest

from chalicelib.domain.errors import Forbidden
from chalicelib.http.auth.tickets import GOOD_S, Tickets
from chalicelib.http.auth.tokens import BadToken, LocalKey
from tests.services.worlds import World


@pytest.fixture(name="world")
def a_world() -> World:
    return World()


def test_a_ticket_says_whose_report_it_is_for(world: World) -> None:
    tickets = Tickets(world.clock)
    assert tickets.server(tickets.issue(7, "report"), "report") == 7


def test_a_ticket_is_good_for_a_minute(world: World) -> None:
    tickets = Tickets(world.clock)
    ticket = tickets.issue(7, "report")
    world.now_ms += GOOD_S * 1000 - 1
    assert tickets.server(ticket, "report") == 7
    world.now_ms += 1
    with pytest.raises(Forbidden, match="no longer good"):
        tickets.server(ticket, "report")


def test_a_ticket_for_one_report_is_none_for_another(world: World) -> None:
    tickets = Tickets(world.clock)
    with pytest.raises(Forbidden, match="no longer good"):
        tickets.server(tickets.issue(7, "report"), "costs")


def test_what_another_process_issued_is_no_ticket(world: World) -> None:
    with pytest.raises(Forbidden, match="none of ours"):
        Tickets(world.clock).server(Tickets(world.clock).issue(7, "report"), "report")


@pytest.mark.parametrize(
    "ticket", ["", "a.b.c", "ü", jwt.encode({"server": 7, "name": "report"}, "", algorithm="none")]
)
def test_what_nobody_issued_is_no_ticket(ticket: str, world: World) -> None:
    with pytest.raises(Forbidden, match="none of ours"):
        Tickets(world.clock).server(ticket, "report")


def test_a_ticket_is_no_token(world: World) -> None:
    tickets = Tickets(world.clock)
    with pytest.raises(BadToken):
        LocalKey(tickets._key).claims(tickets.issue(7, "report"))
