"""What fails, hangs or asks for too much, over HTTP: it is parked or tried again, and holds up nobody else."""

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from time import monotonic

import pytest
import trustme

from tests.notifications.narration import Teller, job, settings, teller
from tests.notifications.outside import HANG, Outside, eventually
from tests.serving import Server, serving

TEMPLATES = {
    "app/create.body.j2": "{{ nothing_of_this_name }}",
    "app/redirect.body.j2": "{% for x in range(9**9) %}{% for y in range(9**9) %}{{ x }}{% endfor %}{% endfor %}",
    "app/progress.body.j2": "{{ 'x' * 9**9 }}",
    "app/finish.body.j2": "{% if %}",
    "app/clean.body.j2": "{{ ().__class__.__mro__[1].__subclasses__() }}",
    "app/createJobSet.body.j2": "{% include 'app/createJobSet.body.j2' %}",
    "app/progressJobSet.body.j2": "{% for x in range(9999) %}{% set y = [x] * 999 %}{% endfor %}",
    "app/finishJobSet.body.j2": "{% include '../../../../etc/passwd' %}",
    "slack/create.json.j2": '{"text": "{{ node }}",}',
}
ERRORS = {
    "create": "template app/create.body.j2, line 1: 'nothing_of_this_name' is undefined",
    "redirect": "template app/redirect.body.j2, line 1: it ",
    "progress": "template app/progress.body.j2, line 1: it makes a value larger than 1 MB",
    "finish": "template app/finish.body.j2, line 1: ",
    "clean": "template app/clean.body.j2, line 1: ",
    "createJobSet": "template app/createJobSet.body.j2, line 1: it calls itself too deeply",
    "progressJobSet": "template app/progressJobSet.body.j2, line 1: it makes more than 8 MB on its way",
    "finishJobSet": "template app/finishJobSet.body.j2, line 1: there is no template",
}


@pytest.fixture(scope="module", name="ill")
def an_ill_server(world: Outside, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its templates are as bad as can be."""
    folder = tmp_path_factory.mktemp("ill")
    for name, text in TEMPLATES.items():
        (folder / "templates" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "templates" / name).write_text(text)
    environment = settings(world, folder, authority) | {"TEMPLATES_PATH": str(folder / "templates")}
    with serving(folder / "data", **environment) as running:
        yield running


def test_a_bad_template_parks_its_delivery_and_the_others_go_on(ill: Server, world: Outside) -> None:
    anna = teller(ill, world)
    anna.put("told", "app")
    anna.put("mailed")
    anna.publish(job("create", 1), *(job(name, 1) for name in ERRORS if name != "create"), job("cleanJobSet", 2))
    failures = anna.failures("told", len(ERRORS))
    assert anna.settled("told", 9) == {"parked": 8, "sent": 1}
    for failure, (name, error) in zip(failures, ERRORS.items(), strict=True):
        assert failure["error"].startswith(error), name
        assert (failure["tries"], failure["address"], failure["replay"]) == (1, "anna", None)
    assert [one["subject"] for one in anna.inbox()] == ["Job Set cleaned"]
    assert anna.settled("mailed", 9) == {"sent": 7, "dropped": 2}


def test_a_template_that_makes_no_json_is_never_posted(ill: Server, world: Outside) -> None:
    anna = teller(ill, world)
    anna.put("chat", "slack")
    anna.publish(job("create", 1), job("finish", 1))
    assert anna.settled("chat", 2) == {"parked": 1, "sent": 1}
    (failure,) = anna.failures("chat")
    assert failure["error"].startswith("template slack/create.json.j2: what it makes is not JSON")
    assert len(world.slack.of(anna.channel)) == 1


def test_a_template_that_was_mended_is_used_for_the_retry(
    tmp_path: Path, world: Outside, authority: trustme.CA
) -> None:
    template = tmp_path / "templates" / "app" / "create.body.j2"
    template.parent.mkdir(parents=True)
    template.write_text("{{ oops }}")
    environment = settings(world, tmp_path, authority) | {"TEMPLATES_PATH": str(tmp_path / "templates")}
    with serving(tmp_path / "data", **environment) as server:
        anna = teller(server, world)
        anna.put("told", "app")
        anna.publish(job("create"))
        anna.failures("told")
        template.write_text("mended for {{ node }}")
        assert anna.ask("POST", "told/retry").json() == {"retried": 1}
        assert anna.settled("told", 1) == {"sent": 1}
        (message,) = anna.inbox()
    assert message["body"].strip() == "mended for n1"


def test_a_slack_that_hangs_delays_neither_mail_nor_app(anna: Teller) -> None:
    anna.world.slack.answer(anna.channel, repeat(HANG))
    for number in range(3):
        anna.put(f"chat-{number}", "slack")
    anna.put("mailed")
    anna.put("told", "app")
    before = monotonic()
    for number in range(20):
        anna.publish(job("create", number))
    assert (anna.settled("mailed", 20), anna.settled("told", 20)) == ({"sent": 20}, {"sent": 20})
    took_s = monotonic() - before
    assert [anna.deliveries(f"chat-{number}")["waiting"] for number in range(3)] == [20, 20, 20]
    assert took_s < 60, "one post after another would take minutes"
    for number in range(3):
        anna.ask("DELETE", f"chat-{number}")


def test_a_slack_that_is_busy_is_asked_again_when_it_says(anna: Teller) -> None:
    anna.world.slack.answer(anna.channel, iter(["429 Too Many Requests\r\nRetry-After: 4"]))
    anna.put("chat", "slack")
    before = monotonic()
    anna.publish(job("create"))
    eventually(lambda: anna.world.slack.refused[f"/{anna.channel}"])
    assert anna.settled("chat", 1) == {"sent": 1}
    assert monotonic() - before > 4
    assert len(anna.world.slack.of(anna.channel)) == 1


def test_failures_are_listed_page_by_page_and_retried_one_by_one_or_all(anna: Teller) -> None:
    anna.world.slack.answer(anna.channel, repeat("404 No Such Channel", 5))
    anna.put("chat", "slack")
    anna.publish(*(job("create", number) for number in range(5)))
    failures = anna.failures("chat", 5)
    assert [failure["key"] for failure in failures] == [f"/job/{number}" for number in range(5)]
    first = failures[0]
    assert first["id"] == "{server}.{session}.{instance}/chat".format(**first["event"])
    assert (first["tries"], first["error"]) == (1, f"localhost:{anna.world.slack.port} answered 404")
    assert _pages(anna, 2) == [[one["id"] for one in failures[at : at + 2]] for at in (0, 2, 4)]
    retry = anna.ask("POST", "chat/retry", {"ids": [failures[2]["id"], "unknown"]})
    assert retry.json() == {"retried": 1}
    assert anna.settled("chat", 5) == {"parked": 4, "sent": 1}
    assert anna.ask("POST", "chat/retry").json() == {"retried": 4}
    assert anna.settled("chat", 5) == {"sent": 5}
    assert anna.ask("GET", "chat/failures").json() == {"failures": []}


@pytest.mark.parametrize("limit", ["0", "1001", "x"])
def test_a_page_of_failures_has_a_size(anna: Teller, limit: str) -> None:
    anna.put("chat", "slack")
    assert anna.member.get("/observers/chat/failures", params={"limit": limit}).status_code == 400


def test_a_refused_recipient_is_parked_alone(anna: Teller) -> None:
    """One message per address: who is refused takes nobody else along."""
    box = anna.world.box
    anna.put("ops", config={"to": f"{anna.address}, other.{anna.address}"})
    box.answers["RCPT"] = "550 no such user"
    try:
        anna.publish(job("create"))
        assert anna.settled("ops", 2) == {"parked": 2}
    finally:
        del box.answers["RCPT"]
    one, other = anna.failures("ops", 2)
    assert (one["address"], other["address"]) == (anna.address, f"other.{anna.address}")
    assert other["id"] == f"{one['id']}/2"
    assert anna.ask("POST", "ops/retry", {"ids": [other["id"]]}).json() == {"retried": 1}
    assert anna.settled("ops", 2) == {"parked": 1, "sent": 1}
    assert (anna.world.subjects(anna.address), len(anna.world.mails(f"other.{anna.address}"))) == ([], 1)


def test_an_observer_that_is_deleted_takes_with_it_what_waits(anna: Teller) -> None:
    anna.world.slack.answer(anna.channel, chain(["503 Busy\r\nRetry-After: 3"], repeat("200 OK")))
    anna.put("chat", "slack")
    anna.publish(job("create", 1), job("progress", 1), job("finish", 1))
    eventually(lambda: anna.world.slack.refused[f"/{anna.channel}"])
    assert anna.ask("DELETE", "chat").status_code == 200
    anna.put("later", "slack")
    anna.publish(job("create", 2), job("create", 3))
    assert anna.settled("later", 2) == {"sent": 2}
    titles = [post["title"] for post in anna.world.slack.of(anna.channel)]
    assert titles == ["Job created: backup #2", "Job created: backup #3"]


def _pages(anna: Teller, limit: int) -> list[list[str]]:
    pages: list[list[str]] = []
    after = ""
    while True:
        found = anna.member.get("/observers/chat/failures", params={"limit": limit, "after": after}).json()["failures"]
        if not found:
            return pages
        pages.append([one["id"] for one in found])
        after = pages[-1][-1]
