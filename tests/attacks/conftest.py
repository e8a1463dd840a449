"""One server for the tests of this directory. Each test has its own organization."""

from tests.serving import fixture_member, fixture_server

__all__ = ["fixture_member", "fixture_server"]
