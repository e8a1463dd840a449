"""The connection pool: reuse, closed connections, checksums, TLS and proxies."""

import datetime
import ipaddress
import ssl
import threading
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
from chalicelib.adapters.aws.connection_pool import MAX_IDLE_CONNECTIONS, TRANSPORT_ERRORS, ConnectionPool, Response
from tests.adapters.aws.endpoints import Reply, connect_proxy, recording_server, serve

WAIT_S = 10.0
CHUNKED = Reply(content=b'3\r\n{"a\r\n3\r\n":1\r\n1\r\n}\r\n0\r\n\r\n', headers={"Transfer-Encoding": "chunked"})


def post_all(pool: ConnectionPool, *bodies: bytes) -> list[Response]:
    return [pool.post({"host": pool.host}, body, WAIT_S) for body in bodies]


def test_post_sequential_requests_share_a_connection() -> None:
    with recording_server(Reply(content=b'{"a":1}'), CHUNKED, Reply(404, b"")) as (endpoint, requests):
        pool = ConnectionPool(endpoint)
        responses = post_all(pool, b"1", b"2", b"3", b"4")
        pool.close()
    assert responses == [Response(200, b'{"a":1}'), Response(200, b'{"a":1}'), Response(404, b""), Response(200, b"{}")]
    assert [request.body for request in requests] == [b"1", b"2", b"3", b"4"]
    assert len({request.port for request in requests}) == 1


def test_post_after_connection_close_header_reconnects() -> None:
    with recording_server(Reply(headers={"Connection": "close"})) as (endpoint, requests):
        pool = ConnectionPool(endpoint)
        assert post_all(pool, b"1", b"2") == [Response(200, b"{}")] * 2
        pool.close()
    assert len({request.port for request in requests}) == 2


def test_post_after_server_closed_idle_connection_reconnects() -> None:
    with recording_server(Reply(close_after=True)) as (endpoint, requests):
        pool = ConnectionPool(endpoint)
        assert post_all(pool, b"1") == [Response(200, b"{}")]
        assert select([pool._idle[0].sock], [], [], WAIT_S)[0]
        assert post_all(pool, b"2") == [Response(200, b"{}")]
        pool.close()
    assert len({request.port for request in requests}) == 2


def test_post_after_reset_drops_all_idle_connections() -> None:
    """After a freeze the service has dropped all connections, and none of them shows it before it is used."""
    barrier = threading.Barrier(2)
    bodies: list[bytes] = []

    class FreezingHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        responded = False

        def do_POST(self) -> None:
            if self.responded:  # Not the first request on this connection: hang up.
                self.close_connection = True
                return
            self.responded = True
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append(body)
            if body == b"first":
                barrier.wait(WAIT_S)
            self.send_response(200)
            self.send_header("x-amzn-RequestId", "R1")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with serve(FreezingHandler) as endpoint:
        pool = ConnectionPool(endpoint)
        with ThreadPoolExecutor(2) as executor:
            list(executor.map(lambda _: post_all(pool, b"first"), range(2)))
        with pytest.raises(TRANSPORT_ERRORS):
            post_all(pool, b"second")
        assert post_all(pool, b"third") == [Response(200, b"{}", "R1")]
        pool.close()
    assert bodies == [b"first", b"first", b"third"]


def test_post_concurrent_threads_get_their_own_response() -> None:
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
    with serve(Echo) as endpoint, ThreadPoolExecutor(16) as threads:
        pool = ConnectionPool(endpoint)
        assert [response.content for response in threads.map(lambda body: post_all(pool, body)[0], bodies)] == bodies
        pool.close()


def test_post_concurrent_threads_keep_limited_idle_connections() -> None:
    with recording_server() as (endpoint, requests), ThreadPoolExecutor(MAX_IDLE_CONNECTIONS + 10) as threads:
        pool = ConnectionPool(endpoint)
        list(threads.map(lambda _: post_all(pool, b"{}"), range(300)))
        assert len(pool._idle) <= MAX_IDLE_CONNECTIONS
        pool.close()
        assert (len(requests), len(pool._idle)) == (300, 0)


@pytest.mark.parametrize(("offset", "is_correct"), [(0, True), (1, False)], ids=["correct", "wrong"])
def test_post_verifies_crc32_of_response(offset: int, is_correct: bool) -> None:
    checksum = str(zlib.crc32(b'{"Item":{}}') + offset)
    with recording_server(Reply(content=b'{"Item":{}}', headers={"x-amz-crc32": checksum})) as (endpoint, _):
        pool = ConnectionPool(endpoint)
        if is_correct:
            assert post_all(pool, b"{}") == [Response(200, b'{"Item":{}}')]
        else:
            with pytest.raises(HTTPException, match="checksum of the response is wrong"):
                post_all(pool, b"{}")
        pool.close()


@pytest.fixture(name="tls")
def tls_certificate(tmp_path: Path) -> Iterator[tuple[ssl.SSLContext, Path]]:
    """TLS context of a server, and the CA file for clients that trust it."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "annals")])
    now = datetime.datetime.now(datetime.UTC)
    alternative_name = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(alternative_name, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = tmp_path / "public.pem", tmp_path / "private.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    connection_pool._tls_context.cache_clear()
    yield context, public
    connection_pool._tls_context.cache_clear()


def test_post_trusted_certificate_uses_tls(tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    context, public = tls
    monkeypatch.setenv("AWS_CA_BUNDLE", str(public))
    with recording_server(tls=context) as (endpoint, requests):
        pool = ConnectionPool(endpoint)
        assert post_all(pool, b"1", b"2") == [Response(200, b"{}")] * 2
        pool.close()
    assert len({request.port for request in requests}) == 1


def test_post_untrusted_certificate_sends_nothing(tls: tuple[ssl.SSLContext, Path]) -> None:
    with recording_server(tls=tls[0]) as (endpoint, requests), pytest.raises(ssl.SSLCertVerificationError):
        post_all(ConnectionPool(endpoint), b"secret")
    assert requests == []


@pytest.mark.parametrize(
    ("user", "header"), [("", None), ("anna:p%40ss@", "Basic YW5uYTpwQHNz")], ids=["without password", "with password"]
)
def test_post_through_proxy_tunnels_tls(
    tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch, user: str, header: str | None
) -> None:
    context, public = tls
    monkeypatch.setenv("AWS_CA_BUNDLE", str(public))
    with recording_server(tls=context) as (endpoint, requests), connect_proxy() as (proxy, connects):
        pool = ConnectionPool(endpoint, proxy.replace("//", f"//{user}"))
        assert post_all(pool, b"1", b"2") == [Response(200, b"{}")] * 2
        pool.close()
    assert connects == [(endpoint.removeprefix("https://"), header)]
    assert [request.body for request in requests] == [b"1", b"2"]
