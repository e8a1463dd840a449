"""A pinger of a new organization for each test."""

import pytest

from tests.http.pings.ping_client import Pinger, new_pinger
from tests.serving import Member


@pytest.fixture(name="pinger")
def fixture_pinger(member: Member) -> Pinger:
    return new_pinger(member)
