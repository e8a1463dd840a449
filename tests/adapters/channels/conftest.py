"""A certificate authority of our own, which clients trust as the machine's."""

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
    """What clients trust while this is in use: our authority and no other."""
    path = tmp_path_factory.mktemp("authority") / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        yield path


@pytest.fixture(scope="session")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    """A server's side of TLS, as `localhost` and as `127.0.0.1`."""
    return context_for(authority, "localhost", "127.0.0.1")


@pytest.fixture(scope="session")
def foreign_tls(authority: trustme.CA) -> ssl.SSLContext:
    """The same with a certificate for somebody else."""
    return context_for(authority, "elsewhere.example")


def context_for(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    return context
