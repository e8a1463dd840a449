"""What observers can be made to do: by who configures them, and by what events say."""

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

from infra.server.logging import Margined
from tests.notifications.narration import job
from tests.notifications.outside import eventually
from tests.serving import JWT_KEY, Member, Server, serving

MOST_MB = 200
"""As much memory as the server may take for any of this, and as much time, of a processor, for each."""
MOST_S = 2.0
WEBHOOK = "T0SECRET/B0SECRET/hooksecret"

Json = dict[str, Any]


class Canary:
    """Listens where nobody has any business; notices whoever comes."""

    def __init__(self) -> None:
        self.visits = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _watch(self) -> None:
        with suppress(OSError):
            while True:
                self._listener.accept()[0].close()
                self.visits += 1


@pytest.fixture(scope="module", name="canary")
def a_canary() -> Iterator[Canary]:
    canary = Canary()
    yield canary
    canary.close()


@pytest.fixture(scope="module", name="server")
def a_server_behind_proxies(tmp_path_factory: pytest.TempPathFactory, canary: Canary) -> Iterator[Server]:
    """Its environment names proxies that nothing of its own is to go through."""
    proxy = f"http://127.0.0.1:{canary.port}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    settings = {"MAIL_FROM": "annals@example.org", "SLACK_HOSTS": "hooks.slack.com,nobody.invalid"}
    with serving(tmp_path_factory.mktemp("observers"), **settings, **dict.fromkeys(names, proxy)) as running:
        yield running
        assert running.process.poll() is None
    assert canary.visits == 0


@pytest.fixture(name="member")
def a_member(server: Server) -> Member:
    return server.organization()


def used(server: Server) -> tuple[float, float]:
    """Seconds of a processor that the server has had, and megabytes that it has needed at most."""
    folder = Path(f"/proc/{server.process.pid}")
    times = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
    peak = re.search(r"VmHWM:\s+(\d+) kB", (folder / "status").read_text())
    assert peak is not None
    return sum(map(int, times)) / 100, int(peak[1]) / 1024


def preview(member: Member, configuration: Json, name: str = "new") -> tuple[int, str]:
    answer = member.ask("POST", f"/observers/{name}/preview", json={"configuration": configuration}, timeout=60)
    return answer.status_code, answer.text


def private(**more: Any) -> Json:
    return {"channel": "app", "scope": "private", **more}


LARGE = {"texts": ["x" * 1000] * 50, "many": list(range(20_000)), "one": 10**400, "text": "<&" * 30_000}
FILTERS = {
    "attributes": "event.__class__.__mro__[1].__subclasses__()",
    "attributes by name": "event|attr('__class__')",
    "attributes by path": "[event]|map(attribute='__class__.__base__')|list",
    "attributes by index": "event['__class__']['__init__']",
    "a format of texts": "'{0.__class__.__init__.__globals__}'.format(event)",
    "a format of maps": "'{e.__class__}'.format_map({'e': event})",
    "globals of what is there": "range.__globals__ or namespace.__init__.__globals__ or cycler.__init__.__globals__",
    "what templates have": "self._TemplateReference__context or config or request",
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
def test_a_filter_of_any_reader_reaches_nothing_and_takes_little(name: str, member: Member) -> None:
    event = {"type": ["large"], "payload": {"type": "json", "data": LARGE}}
    assert member.post({"events": [event]}).status_code == 201
    reader = member.server.member(member.organization, groups=["readers"], user="eve")
    before_s, _ = used(member.server)
    status, told = preview(reader, private(filter=FILTERS[name]))
    after_s, peak_mb = used(member.server)
    assert status in (200, 400)
    assert "root:" not in told
    assert "<class" not in told
    assert (after_s - before_s < MOST_S, peak_mb < MOST_MB) == (True, True)


def test_a_form_of_times_makes_no_book_of_a_log(member: Member) -> None:
    lines = [job("progress", log={"message": "x"}) for _ in range(900)]
    assert member.ask("POST", "/events/job", json={"events": [job("create"), *lines, job("finish")]}).status_code == 201
    before_s, _ = used(member.server)
    config = {"to": "a@example.org"}
    long_form = preview(member, {"channel": "mail", "config": {**config, "time_format": "%c" * 30_000}})
    wide_form = preview(member, {"channel": "mail", "config": {**config, "time_format": "%999999Y" * 12}})
    after_s, peak_mb = used(member.server)
    assert (long_form[0], wide_form[0]) == (400, 200)
    assert (after_s - before_s < 2 * MOST_S, peak_mb < MOST_MB) == (True, True)


INJECTED = "{{ 7 * 7 }}{% for i in range(10**9) %}{{ config }}\r\nBcc: eve@example.org\r\n\r\n<script>alert(1)</script>"
INJECTED += '<img src=x onerror=y><a href="javascript:z">","text":"<!channel> <@U1> <!here|x> <https://evil.example|y>&'


def injected(member: Member) -> None:
    """A job whose every text tries something."""
    told = {"type": "backup", "params": {INJECTED: INJECTED}, "props": {"author": INJECTED, "link": INJECTED}}
    log = {"message": INJECTED, "tag": INJECTED}
    events = [job("create", **told), job("progress", log=log, state=INJECTED)]
    events.append(job("finish", message=INJECTED, data={"text": INJECTED}, type="backup", props={"author": INJECTED}))
    answer = member.ask("POST", "/events/job", json={"events": events})
    assert answer.status_code == 201, answer.text


def test_what_an_event_says_is_no_template_no_header_and_no_markup_in_mail(member: Member) -> None:
    injected(member)
    config = {"to": "ops@example.org", "title": INJECTED}
    assert member.ask("PUT", "/observers/ops", json={"channel": "mail", "config": config}).status_code == 201
    folder = member.server.data_dir / "maildir" / "new"
    before = set(folder.glob("*"))
    assert member.ask("POST", "/observers/ops/test").json() == {"sent": True}
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


def test_what_an_event_says_mentions_nobody_in_slack(member: Member) -> None:
    injected(member)
    url = f"https://hooks.slack.com/services/{WEBHOOK}"
    status, told = preview(member, {"channel": "slack", "config": {"url": url}})
    (attachment,) = json.loads(told)["message"]["json"]["attachments"]
    assert (status, "{{ 7 * 7 }}" in str(attachment), re.search("[<>]", str(attachment))) == (200, True, None)
    assert WEBHOOK not in told


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "data:text/html,x", "file://evil.example/x", "\\\\evil\\x", "//x"]
)
def test_no_message_links_to_what_runs_or_to_anothers_files(link: str, member: Member) -> None:
    payload = {"type": "json", "data": {"link": link}}
    member.post({"events": [{"type": ["report", "ready", "report"], "payload": payload}]})
    _, told = preview(member, {"channel": "mail", "config": {"to": "ops@example.org"}})
    assert "href=" not in json.loads(told)["message"]["html"]
    url = {"url": "https://hooks.slack.com/services/x"}
    _, told = preview(member, {"channel": "slack", "config": url})
    assert "title_link" not in json.loads(told)["message"]["json"]["attachments"][0]


ELSEWHERE = [
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


@pytest.mark.parametrize("url", ELSEWHERE)
def test_no_webhook_leads_elsewhere(url: str, member: Member, canary: Canary) -> None:
    config = {"url": url.format(here=f"127.0.0.1:{canary.port}", port=canary.port)}
    member.publish("a")
    for configuration in ({"channel": "slack", "config": config}, private(channel="slack", config=config)):
        answer = member.ask("PUT", "/observers/new", json=configuration)
        assert (answer.status_code, preview(member, configuration)[0]) == (400, 400)
    assert canary.visits == 0


def test_no_proxy_of_the_environment_gets_a_message(member: Member, canary: Canary) -> None:
    """A host that nobody can look up is not reached through anybody either."""
    member.publish("a")
    config = {"url": f"https://nobody.invalid/services/{WEBHOOK}"}
    assert member.ask("PUT", "/observers/new", json={"channel": "slack", "config": config}).status_code == 201
    answer = member.ask("POST", "/observers/new/test")
    assert (answer.status_code, "its name cannot be looked up" in answer.text) == (502, True)
    assert WEBHOOK not in answer.text
    assert canary.visits == 0


FORGED = "x\n2026-01-01 00:00:00,000 INFO forged\r\x1b[2J\x07\x85\u2028forged"


def test_nothing_that_was_sent_begins_a_line_of_the_log_or_moves_a_cursor(member: Member) -> None:
    broken = f"event[{FORGED!r}].a.b() + 1"
    assert member.ask(
        "PUT", "/observers/ops", json={"channel": "app", "config": {"to": "a"}, "filter": broken}
    ).is_success
    member.post({"events": [{"type": ["a"], "key": "/a"}]}, **{"X-Forwarded-For": "forged"})
    parked = eventually(lambda: member.get("/observers/ops/failures").json()["failures"])
    assert "\n" not in parked[0]["error"]
    log = eventually(lambda: member.server.output, lambda text: "is parked" in text)
    lines = log.splitlines()
    assert [line for line in lines if not re.match(r"\d{4}-\d\d-\d\d [\d:,]+ (INFO|WARNING|ERROR) |    ", line)] == []
    assert [line for line in lines if "INFO forged" in line and not line.index("INFO forged") > 40] == []
    assert [line for line in lines if re.search(r"[\x00-\x1f\x7f-\x9f]", line)] == []


def test_a_failure_that_quotes_what_was_sent_is_indented_in_the_log() -> None:
    try:
        raise ValueError(FORGED)
    except ValueError as failure:
        info = (type(failure), failure, failure.__traceback__)
    record = logging.LogRecord("annals", logging.ERROR, "", 0, "failed: %s", (FORGED,), info)
    first, *rest = Margined("%(levelname)s %(message)s").format(record).splitlines()
    assert first == "ERROR failed: x"
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    assert "    2026-01-01 00:00:00,000 INFO forged" in rest


def test_no_secret_is_in_the_log(member: Member) -> None:
    server, code = member.server, "guessed-code"
    config = {"url": f"https://nobody.invalid/services/{WEBHOOK}"}
    member.ask("PUT", "/observers/slack", json={"channel": "slack", "config": config})
    member.ask("POST", "/observers/slack/test")
    server.client.post("/sign-in", json={"code": code})
    server.client.get("/reports/report?ticket=secret-ticket")
    for token in (member.token, f"{member.token}x", "secret.token.here"):
        server.client.get("/events?types=a/*/b", headers={"Authorization": f"Bearer {token}"})
    secrets = [JWT_KEY, member.token, "secret.token.here", code, "secret-ticket", WEBHOOK, "hooksecret"]
    assert [secret for secret in secrets if secret in server.output] == []
