"""Attacks through observers: their configuration, and the texts of events."""

import email.policy
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from infra.server.logging import IndentingFormatter
from tests.notifications.fake_channels import eventually
from tests.notifications.observer_client import job
from tests.serving import JWT_KEY, Member, Server, run_server

pytestmark = pytest.mark.serial

MAX_PEAK_MB = 200
MAX_CPU_S = 2.0
WEBHOOK = "T0SECRET/B0SECRET/hooksecret"

Json = dict[str, Any]


class Canary:
    """A listener that must not get any connection."""

    def __init__(self) -> None:
        self.connection_count = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._listener.accept()[0].close()
                self.connection_count += 1


@pytest.fixture(scope="module", name="canary")
def fixture_canary() -> Iterator[Canary]:
    canary = Canary()
    yield canary
    canary.close()


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory: pytest.TempPathFactory, canary: Canary) -> Iterator[Server]:
    """A server with proxies in its environment, which it must not use."""
    proxy = f"http://127.0.0.1:{canary.port}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    settings = {"MAIL_FROM": "annals@example.org", "SLACK_HOSTS": "hooks.slack.com,nobody.invalid"}
    with run_server(tmp_path_factory.mktemp("observers"), **settings, **dict.fromkeys(names, proxy)) as running:
        yield running
        assert running.process.poll() is None
    assert canary.connection_count == 0


@pytest.fixture(name="member")
def fixture_member(server: Server) -> Member:
    return server.organization()


def resource_usage(server: Server) -> tuple[float, float]:
    """CPU seconds and peak megabytes of the server."""
    folder = Path(f"/proc/{server.process.pid}")
    times = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
    peak = re.search(r"VmHWM:\s+(\d+) kB", (folder / "status").read_text())
    assert peak is not None
    return sum(map(int, times)) / 100, int(peak[1]) / 1024


def preview(member: Member, configuration: Json, name: str = "new") -> tuple[int, str]:
    response = member.request("POST", f"/observers/{name}/preview", json={"configuration": configuration}, timeout=60)
    return response.status_code, response.text


def private(**more: Any) -> Json:
    return {"channel": "app", "scope": "private", **more}


LARGE = {"texts": ["x" * 1000] * 50, "many": list(range(20_000)), "one": 10**400, "text": "<&" * 30_000}
FILTERS = {
    "attributes": "event.__class__.__mro__[1].__subclasses__()",
    "attributes by name": "event|attr('__class__')",
    "attributes by path": "[event]|map(attribute='__class__.__base__')|list",
    "attributes by index": "event['__class__']['__init__']",
    "str.format": "'{0.__class__.__init__.__globals__}'.format(event)",
    "str.format_map": "'{e.__class__}'.format_map({'e': event})",
    "globals of builtins": "range.__globals__ or namespace.__init__.__globals__ or cycler.__init__.__globals__",
    "template internals": "self._TemplateReference__context or config or request",
    "code": "eval('1') or exec('1') or __import__('os')",
    "a file": "''.__class__.__base__.__subclasses__()[40]('/etc/passwd').read()",
    "changing the event": "event.update({'a': 1}) or event.payload.data.many.clear()",
    "a long text": "'x' * 10**10",
    "a text of texts": "('x' * 999999) ~ ('x' * 999999) ~ ('x' * 999999) ~ ('x' * 999999)",
    "a long number": "9 ** 9 ** 9 ** 9",
    "numbers of numbers": "(10 ** 1000) ** (10 ** 1000)",
    "a number of digits": "('1' * 900000)|int(0, 3) + ('f' * 900000)|int(0, 16)",
    "a long list": "range(10 ** 9)|list|length",
    "lists of lists": "[[[event] * 999] * 999] * 999",
    "many long numbers": "([2 ** 4000] * 20000)|join('')",
    "many long numbers as JSON": "([2 ** 4000] * 20000)|tojson",
    "a sum of lists": "event.payload.data.many|map('list')|sum(start=[])",
    "sums of lists": "([[1]] * 10000)|sum(start=[])|length",
    "comparisons": "[event.payload.data.many] * 9 in [[event.payload.data.many] * 9] * 9",
    "looking in lists": "event.payload.data.many|select('in', event.payload.data.many)|list",
    "replacements": "event.payload.data.text|replace('<', event.payload.data.text)",
    "a join": "event.payload.data.text|join(event.payload.data.text)",
    "words": "event.payload.data.text|wordcount + event.payload.data.text|title|length",
    "widths": "'%999999999s' % 1 or '%*d' % (999999999, 1)",
    "sorting": "event.payload.data.many|sort(reverse=true)|groupby('real')|list",
    "brackets": "(" * 900 + "1" + ")" * 900,
    "negations": "not " * 480 + "1",
    "a chain": "1" + "+1" * 950,
    "attributes of attributes": "event" + ".a" * 950,
    "filters of filters": "event" + "|list" * 180,
    "items of items": "event" + "[0]" * 180,
    "lists in lists": "[" * 900 + "]" * 900,
    "statements": "{% for i in range(10**9) %}{% endfor %}",
    "an include": "{% include '/etc/passwd' %}",
}


@pytest.mark.parametrize("name", FILTERS)
def test_hostile_filter_is_harmless_and_cheap(name: str, member: Member) -> None:
    event = {"type": ["large"], "payload": {"type": "json", "data": LARGE}}
    assert member.post({"events": [event]}).status_code == 201
    reader = member.server.member(member.organization, groups=["readers"], user="eve")
    before_s, _ = resource_usage(member.server)
    status, text = preview(reader, private(filter=FILTERS[name]))
    after_s, peak_mb = resource_usage(member.server)
    assert status in (200, 400)
    assert "root:" not in text
    assert "<class" not in text
    assert (after_s - before_s < MAX_CPU_S, peak_mb < MAX_PEAK_MB) == (True, True)


def test_long_time_formats_use_limited_resources(member: Member) -> None:
    lines = [job("progress", log={"message": "x"}) for _ in range(900)]
    assert (
        member.request("POST", "/events/job", json={"events": [job("create"), *lines, job("finish")]}).status_code
        == 201
    )
    before_s, _ = resource_usage(member.server)
    config = {"to": "a@example.org"}
    long_format = preview(member, {"channel": "mail", "config": {**config, "time_format": "%c" * 30_000}})
    wide_format = preview(member, {"channel": "mail", "config": {**config, "time_format": "%999999Y" * 12}})
    after_s, peak_mb = resource_usage(member.server)
    assert (long_format[0], wide_format[0]) == (400, 200)
    assert (after_s - before_s < 2 * MAX_CPU_S, peak_mb < MAX_PEAK_MB) == (True, True)


INJECTED = "{{ 7 * 7 }}{% for i in range(10**9) %}{{ config }}\r\nBcc: eve@example.org\r\n\r\n<script>alert(1)</script>"
INJECTED += '<img src=x onerror=y><a href="javascript:z">","text":"<!channel> <@U1> <!here|x> <https://evil.example|y>&'


def publish_injected(member: Member) -> None:
    """Publish a job with an attack in each of its texts."""
    fields = {"type": "backup", "params": {INJECTED: INJECTED}, "props": {"author": INJECTED, "link": INJECTED}}
    log = {"message": INJECTED, "tag": INJECTED}
    events = [job("create", **fields), job("progress", log=log, state=INJECTED)]
    events.append(job("finish", message=INJECTED, data={"text": INJECTED}, type="backup", props={"author": INJECTED}))
    response = member.request("POST", "/events/job", json={"events": events})
    assert response.status_code == 201, response.text


def test_event_text_is_escaped_in_mail(member: Member) -> None:
    publish_injected(member)
    config = {"to": "ops@example.org", "title": INJECTED}
    assert member.request("PUT", "/observers/ops", json={"channel": "mail", "config": config}).status_code == 201
    folder = member.server.data_dir / "maildir" / "new"
    before = set(folder.glob("*"))
    assert member.request("POST", "/observers/ops/test").json() == {"sent": True}
    (file,) = set(folder.glob("*")) - before
    mail = message_from_bytes(file.read_bytes(), policy=email.policy.default)
    assert (mail["Bcc"], mail["To"], mail["From"].addresses[0].addr_spec) == (
        None,
        "ops@example.org",
        "annals@example.org",
    )
    text, html = (part.get_content() for part in mail.iter_parts())
    assert "{{ 7 * 7 }}" in text
    assert "{{ 7 * 7 }}" in html
    assert re.findall(r"<(?:script|img)|javascript:[^&]*\"|href=\"(?!https?:)", html) == []


def test_event_text_is_escaped_in_slack(member: Member) -> None:
    publish_injected(member)
    url = f"https://hooks.slack.com/services/{WEBHOOK}"
    status, text = preview(member, {"channel": "slack", "config": {"url": url}})
    (attachment,) = json.loads(text)["message"]["json"]["attachments"]
    assert (status, "{{ 7 * 7 }}" in str(attachment), re.search("[<>]", str(attachment))) == (200, True, None)
    assert WEBHOOK not in text


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "data:text/html,x", "file://evil.example/x", "\\\\evil\\x", "//x"]
)
def test_message_has_no_unsafe_links(link: str, member: Member) -> None:
    payload = {"type": "json", "data": {"link": link}}
    member.post({"events": [{"type": ["report", "ready", "report"], "payload": payload}]})
    _, text = preview(member, {"channel": "mail", "config": {"to": "ops@example.org"}})
    assert "href=" not in json.loads(text)["message"]["html"]
    url = {"url": "https://hooks.slack.com/services/x"}
    _, text = preview(member, {"channel": "slack", "config": url})
    assert "title_link" not in json.loads(text)["message"]["json"]["attachments"][0]


FORBIDDEN_URLS = [
    *("http://hooks.slack.com/x", "ftp://hooks.slack.com/x", "file:///etc/passwd", "gopher://{here}/x", "data:,x"),
    *("https://{here}/x", "https://localhost:{port}/x", "https://LOCALHOST:{port}/x", "https://localhost.:{port}/x"),
    *(
        "https://2130706433:{port}/x",
        "https://0x7f000001:{port}/x",
        "https://0177.0.0.1:{port}/x",
        "https://127.1:{port}/",
    ),
    *("https://0.0.0.0:{port}/x", "https://0:{port}/x", "https://[::]:{port}/x", "https://[::1]:{port}/x"),
    *("https://[::ffff:127.0.0.1]:{port}/x", "https://[::ffff:7f00:1]:{port}/", "https://[64:ff9b::7f00:1]:{port}/x"),
    *("https://[fe80::1%25lo]:{port}/x", "https://[fc00::1]/x", "https://169.254.169.254/latest/meta-data/"),
    *("https://100.64.0.1/x", "https://10.0.0.1/x", "https://192.168.0.1/x", "https://metadata.google.internal/x"),
    *("https://hooks.slack.com@{here}/x", "https://hooks.slack.com:443@{here}/x", "https://a:b@hooks.slack.com/x"),
    *("https://{here}#@hooks.slack.com/x", "https://{here}?@hooks.slack.com/x", "https://{here}\\@hooks.slack.com/x"),
    *(
        "https://hooks.slack.com\\.evil.example/x",
        "https://hooks.slack.com%2eevil.example/",
        "https://hooks.slack.com%00/",
    ),
    *("https://hooks.slack.com./x", "https://hooks.slack.com:8443/x", "https://hooks.slack.com:{port}/x"),
    *("https://hooks.slack.com.evil.example/x", "https://xhooks.slack.com/x", "https://slack.com/x"),
    *("https://ho\u043eks.slack.com/x", "https://hooks\u3002slack.com/x", "https://\uff48ooks.slack.com/x"),
    *("https://xn--hoks-0na.slack.com/x", "https://hooks.slack.com\r\nHost: {here}/x", "https://hooks.slack.com\t/x"),
    *("//hooks.slack.com/x", "https:hooks.slack.com/x", "https:///x", "https://", " https://hooks.slack.com/x"),
]


@pytest.mark.parametrize("url", FORBIDDEN_URLS)
def test_webhook_with_forbidden_url_is_refused(url: str, member: Member, canary: Canary) -> None:
    config = {"url": url.format(here=f"127.0.0.1:{canary.port}", port=canary.port)}
    member.publish("a")
    for configuration in ({"channel": "slack", "config": config}, private(channel="slack", config=config)):
        response = member.request("PUT", "/observers/new", json=configuration)
        assert (response.status_code, preview(member, configuration)[0]) == (400, 400)
    assert canary.connection_count == 0


PRIVATE_URLS = [url for url in FORBIDDEN_URLS if "slack" not in url or "{here}" in url]
"""Webhooks may use any public host, also those that look like Slack's."""


@pytest.mark.parametrize("url", PRIVATE_URLS)
def test_event_webhook_with_forbidden_url_is_refused(url: str, member: Member, canary: Canary) -> None:
    config = {"url": url.format(here=f"127.0.0.1:{canary.port}", port=canary.port)}
    member.publish("a")
    for configuration in ({"channel": "webhook", "config": config}, private(channel="webhook", config=config)):
        response = member.request("PUT", "/observers/new", json=configuration)
        assert (response.status_code, preview(member, configuration)[0]) == (400, 400)
    assert canary.connection_count == 0


APPRISE_URLS = [
    *("json://{here}/x", "jsons://{here}/x", "jsons://localhost:{port}/x", "jsons://2130706433:{port}/x"),
    *("jsons://user:pass@{here}/x", "ntfys://{here}/topic", "ntfy://{here}/topic", "workflows://{here}/a/b"),
    *("file:///etc/passwd", "syslog://", "dbus://", "rsyslog://{here}", "mailto://u:p@{here}", "xmls://[::1]:{port}/x"),
    *("jsons://169.254.169.254/latest", "jsons://example.org/?verify=no", "apprises://{here}/token", "http://{here}/x"),
]


def test_apprise_with_forbidden_url_is_refused(member: Member, canary: Canary) -> None:
    for url in APPRISE_URLS:
        urls = [url.format(here=f"127.0.0.1:{canary.port}", port=canary.port)]
        response = member.request("PUT", "/observers/new", json={"channel": "apprise", "config": {"urls": urls}})
        assert (response.status_code, "config.urls: URL 1: " in response.text) == (400, True), url
    assert canary.connection_count == 0


def test_event_text_cannot_change_cloud_event(member: Member) -> None:
    publish_injected(member)
    key = '/a\r\n","x":1'
    member.post({"events": [{"type": ["a\n", '","id":"x'], "key": key}]})
    config = {"url": "https://example.org/hooks"}
    for types, subject in ((["job/finish/*"], "/job/1"), ([["a\n", "*"]], '/a\ufffd\ufffd","x":1')):
        status, text = preview(member, {"channel": "webhook", "types": types, "config": config})
        event = json.loads(text)["message"]["json"]
        assert (status, event["subject"], event["id"].partition("/")[2][:8]) == (200, subject, "new/test")
        assert event.keys() == {"specversion", "id", "source", "type", "time", "datacontenttype", "subject", "data"}


def test_messages_do_not_use_proxies_of_the_environment(member: Member, canary: Canary) -> None:
    """The host cannot be resolved, and a proxy is not asked to resolve it."""
    member.publish("a")
    config = {"url": f"https://nobody.invalid/services/{WEBHOOK}"}
    for channel in ("slack", "webhook"):
        assert member.request("PUT", f"/observers/{channel}", json={"channel": channel, "config": config}).is_success
        response = member.request("POST", f"/observers/{channel}/test")
        assert (response.status_code, "its name cannot be resolved" in response.text) == (502, True)
        assert WEBHOOK not in response.text
    urls = {"urls": [f"jsons://nobody.invalid/{WEBHOOK}"]}
    assert member.request("PUT", "/observers/apprise", json={"channel": "apprise", "config": urls}).is_success
    response = member.request("POST", "/observers/apprise/test")
    assert (response.status_code, WEBHOOK in response.text) == (502, False)
    assert canary.connection_count == 0


FORGED_LINES = "x\n2026-01-01 00:00:00,000 INFO forged\r\x1b[2J\x07\x85\u2028forged"


def test_log_lines_cannot_be_forged(member: Member) -> None:
    broken = f"event[{FORGED_LINES!r}].a.b() + 1"
    assert member.request(
        "PUT", "/observers/ops", json={"channel": "app", "config": {"to": "a"}, "filter": broken}
    ).is_success
    member.post({"events": [{"type": ["a"], "key": "/a"}]}, **{"X-Forwarded-For": "forged"})
    parked = eventually(lambda: member.get("/observers/ops/failures").json()["failures"])
    assert "\n" not in parked[0]["error"]
    log = eventually(lambda: member.server.output, lambda text: " parked after " in text)
    lines = log.splitlines()
    assert [line for line in lines if not re.match(r"\d{4}-\d\d-\d\d [\d:,]+ (INFO|WARNING|ERROR) |    ", line)] == []
    assert [line for line in lines if "INFO forged" in line and not line.index("INFO forged") > 40] == []
    assert [line for line in lines if re.search(r"[\x00-\x1f\x7f-\x9f]", line)] == []


def test_formatter_indents_forged_lines_in_errors() -> None:
    try:
        raise ValueError(FORGED_LINES)
    except ValueError as failure:
        info = (type(failure), failure, failure.__traceback__)
    record = logging.LogRecord("annals", logging.ERROR, "", 0, "failed: %s", (FORGED_LINES,), info)
    first, *rest = IndentingFormatter("%(levelname)s %(message)s").format(record).splitlines()
    assert first == "ERROR failed: x"
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    assert "    2026-01-01 00:00:00,000 INFO forged" in rest


def test_log_contains_no_secrets(member: Member) -> None:
    server, code = member.server, "guessed-code"
    member.publish("a")
    config = {"url": f"https://nobody.invalid/services/{WEBHOOK}"}
    member.request("PUT", "/observers/slack", json={"channel": "slack", "config": config})
    member.request("POST", "/observers/slack/test")
    signing = "whsec_" + "SECRETsecret" * 4
    member.request("PUT", "/observers/hook", json={"channel": "webhook", "config": {**config, "secret": signing}})
    urls = {"urls": [f"jsons://nobody.invalid/{WEBHOOK}"]}
    member.request("PUT", "/observers/apprise", json={"channel": "apprise", "config": urls})
    for name in ("hook", "apprise"):
        assert member.request("POST", f"/observers/{name}/test").status_code == 502
    for path in ("/observers", "/observers/hook", "/observers/apprise", "/observers/hook/failures"):
        text = member.get(path).text
        assert (signing in text, "jsons://nobody" in text) == (False, False)
    server.client.post("/sign-in", json={"code": code})
    server.client.get("/reports/report?ticket=secret-ticket")
    for token in (member.token, f"{member.token}x", "secret.token.here"):
        server.client.get("/events?types=a/*/b", headers={"Authorization": f"Bearer {token}"})
    secrets = [JWT_KEY, member.token, "secret.token.here", code, "secret-ticket", WEBHOOK, "hooksecret", signing]
    assert [secret for secret in secrets if secret in server.output] == []
