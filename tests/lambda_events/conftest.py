"""One server for the tests of this directory; each test has an organization of its own."""

from tests.serving import a_member, a_server

__all__ = ["a_member", "a_server"]
