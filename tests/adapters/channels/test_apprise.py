"""Messages with Apprise to servers on loopback, in the formats of several services, and what it must not do."""

import json
import ssl
import subprocess
import sys
from pathlib import Path
from socket import socket
from threading import Event
from time import monotonic
from typing import Any, cast

import pytest

from chalicelib.adapters.apprise.client import AppriseSender, check_urls
from chalicelib.adapters.apprise.process import send
from chalicelib.adapters.apprise.services import create_service, load_services, uses_only_http
from chalicelib.adapters.webhooks.public_hosts import PublicHosts
from chalicelib.domain.errors import NotDelivered, RateLimited, Undeliverable
from chalicelib.domain.notifications.delivery import AppriseMessage
from tests.adapters.channels import servers, web

ROOT = Path(__file__).parents[3]
Requests = list[tuple[str, dict[str, str], bytes]]

pytestmark = pytest.mark.usefixtures("trusted")


def a_message(url: str, subject: str = "FAILED backup on n1 (#1)", is_failure: bool = True) -> AppriseMessage:
    return AppriseMessage("1.7.1/ops", url, subject, "disk full: “/”", is_failure)


def recorder(requests: Requests, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") -> servers.Script:
    def script(connection: socket, _: Event) -> None:
        requests.append(web.request_of(connection))
        connection.sendall(answer)

    return script


def received(url: str, tls: ssl.SSLContext | None = None, **message: Any) -> tuple[str, Any]:
    """Send to a server on loopback. Returns the first line of its request, and the JSON of the body."""
    requests: Requests = []
    with servers.scripted(recorder(requests), tls) as port:
        AppriseSender([f"localhost:{port}"]).send(a_message(url.format(here=f"localhost:{port}"), **message))
    ((first, _, body),) = requests
    return first, json.loads(body)


def send_error(script: servers.Script, url: str = "json://{here}/tokenSECRET", timeout_s: float = 30) -> NotDelivered:
    with servers.scripted(script) as port:
        here = f"localhost:{port}"
        sender, message = AppriseSender([here], timeout_s), a_message(url.format(here=here))
        with pytest.raises(NotDelivered) as raised:
            sender.send(message)
    assert "SECRET" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize(("is_failure", "kind"), [(True, "failure"), (False, "info")])
def test_json_format(is_failure: bool, kind: str) -> None:
    first, body = received("json://{here}/hooks/a", is_failure=is_failure)
    assert first == "POST /hooks/a HTTP/1.1"
    assert (body["title"], body["message"], body["type"]) == ("FAILED backup on n1 (#1)", "disk full: “/”", kind)


def test_json_format_over_tls(tls: ssl.SSLContext) -> None:
    assert received("jsons://{here}/a", tls)[1]["title"] == "FAILED backup on n1 (#1)"


def test_ntfy_format() -> None:
    first, body = received("ntfy://{here}/alerts")
    assert first == "POST / HTTP/1.1"
    assert (body["topic"], body["title"], body["message"]) == (
        "alerts",
        "FAILED backup on n1 (#1)",
        "disk full: “/”",
    )


def test_teams_format(tls: ssl.SSLContext) -> None:
    """The workflows of Power Automate, whose URLs name their host."""
    first, body = received("workflows://{here}/workflowID/signature", tls)
    assert first.startswith("POST /workflows/workflowID/triggers/manual/paths/invoke?")
    text = json.dumps(body, ensure_ascii=False)
    assert (body["type"], "FAILED backup on n1 (#1)" in text, "disk full: “/”" in text) == ("message", True, True)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
def test_discord_format() -> None:
    """Discord's host is part of the plugin, so the test replaces it and calls the plugin in this process."""
    requests: Requests = []
    answer = b"HTTP/1.1 204 No Content\r\n\r\n"
    service, host = create_service("discord://1234567890/tokenSECRET", PublicHosts())
    assert host is None
    with servers.scripted(recorder(requests, answer)) as port:
        service.notify_url = f"http://localhost:{port}/api/webhooks"
        assert send(service, "FAILED backup on n1 (#1)", "disk full: “/”", "failure")
    ((first, _, body),) = requests
    assert first.startswith("POST /api/webhooks/1234567890/tokenSECRET")
    assert "FAILED backup on n1 (#1)" in json.loads(body)["content"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("404 Not Found", Undeliverable),
        ("410 Gone", Undeliverable),
        ("429 Too Many Requests", RateLimited),
        ("408 Request Timeout", NotDelivered),
        ("500 Internal Server Error", NotDelivered),
    ],
)
def test_error_status_raises(status: str, expected: type[NotDelivered]) -> None:
    error = send_error(web.answer(status, body=b"no tokenSECRET"))
    assert (type(error), f"error={status[:3]}" in str(error)) == (expected, True)


def test_redirect_is_not_followed() -> None:
    requests: Requests = []
    with servers.scripted(recorder(requests)) as other:
        redirect = web.answer("302 Found", f"Location: http://localhost:{other}/")
        send_error(redirect, "json://{here}/a?redirect=yes")
    assert requests == []


def test_hanging_server_fails_in_time() -> None:
    began = monotonic()
    error = send_error(servers.hang, timeout_s=3)
    assert (type(error), str(error)) == (NotDelivered, "the service did not answer in time")
    assert monotonic() - began < 20


def test_unavailable_server_is_retryable() -> None:
    with pytest.raises(NotDelivered, match=r"^json \(127.0.0.1:9\) did not accept the message") as raised:
        AppriseSender(["127.0.0.1"]).send(a_message("json://127.0.0.1:9/tokenSECRET"))
    assert type(raised.value) is NotDelivered


def test_proxies_and_keys_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert received("json://{here}/a")[1]["type"] == "failure"


REFUSED = {
    "file:///etc/passwd": "not a URL that Apprise knows",
    "syslog://": "'syslog' is not available",
    "rsyslog://example.org": "'rsyslog' is not available",
    "mailto://user:pass@example.org": "'mailto' is not available",
    "mqtts://example.org/topic": "not a URL that Apprise knows",
    "dbus://": "not a URL that Apprise knows",
    "tokenSECRET": "not a URL that Apprise knows",
    "json://example.org/a": "'json' is not encrypted, which is allowed only for hosts in WEBHOOK_HOSTS; use jsons://",
    "ntfy://topic": "'ntfy' is not encrypted, which is allowed only for hosts in WEBHOOK_HOSTS; use ntfys://",
    "jsons://127.0.0.1/a": "'127.0.0.1' is not a public host",
    "jsons://localhost:8443/a": "'localhost:8443' is not a public host",
    "jsons://10.0.0.1/a": "'10.0.0.1' is not a public host",
    "jsons://169.254.169.254/a": "'169.254.169.254' is not a public host",
    "jsons://2130706433/a": "'2130706433' is not a public host",
    "jsons://example.org/a?verify=no": "verify=no is allowed only for hosts in WEBHOOK_HOSTS",
}


@pytest.mark.parametrize(("url", "reason"), REFUSED.items())
def test_url_is_refused_by_check_and_send(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^config.urls: URL 1: ") as checked:
        check_urls([url])
    with pytest.raises(Undeliverable) as used:
        AppriseSender().send(a_message(url))
    assert reason in str(checked.value)
    assert str(checked.value) == f"config.urls: URL 1: {used.value}"
    assert "SECRET" not in str(checked.value)


def test_check_accepts_public_services_and_listed_hosts() -> None:
    urls = [
        "discord://1234567890/token",
        "https://discord.com/api/webhooks/1234567890/token",
        "slack://TokenA/TokenB/TokenC",
        "ntfys://topic",
        "ntfys://ntfy.example.org/topic",
        "workflows://example.org/workflowID/signature",
        "json://relay:8080/a?verify=no",
    ]
    check_urls(urls, ["relay:8080"])


@pytest.mark.parametrize("urls", [[], ["ntfys://a"] * 21])
def test_check_refuses_wrong_number_of_urls(urls: list[str]) -> None:
    with pytest.raises(ValueError, match="a list of 1 to 20 Apprise URLs"):
        check_urls(urls)


def test_check_without_apprise_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ValueError, match=r"pip install -r requirements-apprise\.txt"):
        check_urls(["ntfys://topic"])


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
def test_only_plugins_on_http_are_available() -> None:
    """An update of Apprise that adds plugins of another kind fails here."""
    from apprise import manager_plugins

    load_services()
    manager = cast("Any", manager_plugins).NotificationManager()
    schemes = {scheme: manager[scheme] for scheme in manager.schemas()}
    refused = {scheme for scheme, plugin in schemes.items() if not uses_only_http(plugin)}
    assert len(schemes) > 200
    assert refused == {
        *("amqp", "amqps", "aprs", "blink1", "dbus", "deltachat", "deltachats", "gio", "glib", "gnome", "growl"),
        *("irc", "ircs", "kde", "macosx", "mailto", "mailtos", "mqtt", "mqtts", "qt", "rsyslog", "smpp", "smpps"),
        *("syslog", "windows", "xmpp", "xmpps"),
    }


def test_template_file_is_not_sent(tls: ssl.SSLContext, tmp_path: Path) -> None:
    """A parameter of some services names a file of this machine."""
    file = tmp_path / "card.json"
    file.write_text('{"type": "message", "text": "of this machine"}')
    requests: Requests = []
    with servers.scripted(recorder(requests), tls) as port:
        url = f"workflows://localhost:{port}/workflowID/signature?template={file}"
        with pytest.raises(NotDelivered):
            AppriseSender([f"localhost:{port}"]).send(a_message(url))
    assert b"of this machine" not in b"".join(body for _, _, body in requests)


FORBIDDEN = {
    "reads a file": "open('/etc/passwd').read()",
    "reads a file of another folder": "open('/usr/lib/../../etc/passwd').read()",
    "writes a file": "open('/tmp/x', 'w')",
    "writes into Python": "open(sys.prefix + '/x', 'a')",
    "opens a descriptor": "os.open('/etc/passwd', os.O_RDONLY)",
    "runs a program": "subprocess.run(['true'])",
    "runs a shell": "os.system('true')",
    "forks": "os.fork()",
    "loads a library": "ctypes.CDLL('libc.so.6')",
    "connects to this machine": "socket.create_connection(('127.0.0.1', 9))",
    "connects to a private address": "socket.create_connection(('10.0.0.1', 9))",
    "connects to a cloud's credentials": "socket.create_connection(('169.254.169.254', 80))",
    "connects to a name": "socket.socket().connect(('localhost', 9))",
    "connects to a socket file": "socket.socket(socket.AF_UNIX).connect('/run/x')",
    "sends a datagram": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('127.0.0.1', 9))",
    "connects to another port": "socket.create_connection(('127.0.0.2', 8))",
}


@pytest.mark.parametrize("code", FORBIDDEN.values(), ids=FORBIDDEN)
def test_sandbox_prevents(code: str) -> None:
    script = f"""
import ctypes, os, socket, subprocess, sys
from chalicelib.adapters.apprise.sandbox import Sandbox
sandbox = Sandbox()
sandbox.enter()
sandbox.private = {{("127.0.0.2", 9)}}
try:
    {code}
except PermissionError as error:
    print("prevented")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "prevented\n", done.stderr


def test_sandbox_permits_listed_addresses_and_python_files() -> None:
    script = """
import socket, sys
from chalicelib.adapters.apprise.sandbox import Sandbox
sandbox = Sandbox()
sandbox.enter()
sandbox.private = {("127.0.0.1", int(sys.argv[1]))}
socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()
open(socket.__file__).close()
print(sandbox.refusals)
"""
    with servers.scripted(servers.close) as port:
        command = [sys.executable, "-c", script, str(port)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr
