"""A test certificate authority that clients trust."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def trusted(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Makes clients trust only the test authority."""
    path = tmp_path_factory.mktemp("authority") / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        yield path


@pytest.fixture(scope="session")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    """Server context with a certificate for `localhost` and `127.0.0.1`."""
    return context_for(authority, "localhost", "127.0.0.1")


@pytest.fixture(scope="session")
def foreign_tls(authority: trustme.CA) -> ssl.SSLContext:
    """Server context with a certificate for another host."""
    return context_for(authority, "elsewhere.example")


def context_for(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    return context
