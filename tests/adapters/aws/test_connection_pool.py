"""Connections: kept, shared, given up when the other end has; and who the other end is."""

import datetime
import ipaddress
import ssl
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from select import select

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from chalicelib.adapters.aws import connection_pool
from chalicelib.adapters.aws.connection_pool import MOST_IDLE, Answer, Connections
from tests.adapters.aws.endpoints import Reply, noting_server, serving, tunnel

WAIT_S = 10.0
CHUNKED = Reply(content=b'3\r\n{"a\r\n3\r\n":1\r\n1\r\n}\r\n0\r\n\r\n', headers={"Transfer-Encoding": "chunked"})


def posted(wire: Connections, *bodies: bytes) -> list[Answer]:
    return [wire.exchange({"host": wire.host}, body, WAIT_S) for body in bodies]


def test_one_connection_serves_one_request_after_the_other() -> None:
    with noting_server(Reply(content=b'{"a":1}'), CHUNKED, Reply(404, b"")) as (endpoint, requests):
        wire = Connections(endpoint)
        found = posted(wire, b"1", b"2", b"3", b"4")
        wire.close()
    assert found == [Answer(200, b'{"a":1}'), Answer(200, b'{"a":1}'), Answer(404, b""), Answer(200, b"{}")]
    assert [request.body for request in requests] == [b"1", b"2", b"3", b"4"]
    assert len({request.port for request in requests}) == 1


def test_a_connection_that_is_to_be_closed_is_not_used_again() -> None:
    with noting_server(Reply(headers={"Connection": "close"})) as (endpoint, requests):
        wire = Connections(endpoint)
        assert posted(wire, b"1", b"2") == [Answer(200, b"{}")] * 2
        wire.close()
    assert len({request.port for request in requests}) == 2


def test_a_connection_that_the_other_end_has_closed_meanwhile_is_not_used_again() -> None:
    with noting_server(Reply(then_closes=True)) as (endpoint, requests):
        wire = Connections(endpoint)
        assert posted(wire, b"1") == [Answer(200, b"{}")]
        assert select([wire._idle[0].sock], [], [], WAIT_S)[0]
        assert posted(wire, b"2") == [Answer(200, b"{}")]
        wire.close()
    assert len({request.port for request in requests}) == 2


def test_threads_get_each_their_own_answer() -> None:
    class Echo(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    bodies = [f"{n}".encode() * (n % 7 + 1) for n in range(400)]
    with serving(Echo) as endpoint, ThreadPoolExecutor(16) as threads:
        wire = Connections(endpoint)
        assert [one.content for one in threads.map(lambda body: posted(wire, body)[0], bodies)] == bodies
        wire.close()


def test_no_more_connections_wait_than_are_worth_it() -> None:
    with noting_server() as (endpoint, requests), ThreadPoolExecutor(MOST_IDLE + 10) as threads:
        wire = Connections(endpoint)
        list(threads.map(lambda _: posted(wire, b"{}"), range(300)))
        assert len(wire._idle) <= MOST_IDLE
        wire.close()
        assert (len(requests), len(wire._idle)) == (300, 0)


@pytest.mark.parametrize(("offset", "is_whole"), [(0, True), (1, False)], ids=["whole", "damaged"])
def test_an_answer_that_was_damaged_on_the_way_is_none(offset: int, is_whole: bool) -> None:
    checksum = str(zlib.crc32(b'{"Item":{}}') + offset)
    with noting_server(Reply(content=b'{"Item":{}}', headers={"x-amz-crc32": checksum})) as (endpoint, _):
        wire = Connections(endpoint)
        if is_whole:
            assert posted(wire, b"{}") == [Answer(200, b'{"Item":{}}')]
        else:
            with pytest.raises(HTTPException, match="not what was sent"):
                posted(wire, b"{}")
        wire.close()


@pytest.fixture(name="tls")
def a_certificate(tmp_path: Path) -> Iterator[tuple[ssl.SSLContext, Path]]:
    """A server's certificate, and the file that whoever trusts it has."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "annals")])
    now = datetime.datetime.now(datetime.UTC)
    own = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(own, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = tmp_path / "public.pem", tmp_path / "private.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    connection_pool._tls.cache_clear()
    yield context, public
    connection_pool._tls.cache_clear()


def test_whom_we_trust_is_asked_over_tls(tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    context, public = tls
    monkeypatch.setenv("AWS_CA_BUNDLE", str(public))
    with noting_server(tls=context) as (endpoint, requests):
        wire = Connections(endpoint)
        assert posted(wire, b"1", b"2") == [Answer(200, b"{}")] * 2
        wire.close()
    assert len({request.port for request in requests}) == 1


def test_whom_we_do_not_trust_gets_to_know_nothing(tls: tuple[ssl.SSLContext, Path]) -> None:
    with noting_server(tls=tls[0]) as (endpoint, requests), pytest.raises(ssl.SSLCertVerificationError):
        posted(Connections(endpoint), b"secret")
    assert requests == []


@pytest.mark.parametrize(
    ("who", "told"), [("", None), ("anna:p%40ss@", "Basic YW5uYTpwQHNz")], ids=["for all", "for those it knows"]
)
def test_a_proxy_leads_there_and_hears_nothing(
    tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch, who: str, told: str | None
) -> None:
    context, public = tls
    monkeypatch.setenv("AWS_CA_BUNDLE", str(public))
    with noting_server(tls=context) as (endpoint, requests), tunnel() as (proxy, asked):
        wire = Connections(endpoint, proxy.replace("//", f"//{who}"))
        assert posted(wire, b"1", b"2") == [Answer(200, b"{}")] * 2
        wire.close()
    assert asked == [(endpoint.removeprefix("https://"), told)]
    assert [request.body for request in requests] == [b"1", b"2"]
