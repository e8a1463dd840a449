"""The file of observers: configured at every start, or the server says what is wrong with it."""

import json
from pathlib import Path

import pytest
import trustme

from tests.notifications.narration import job, settings, teller
from tests.notifications.outside import Outside
from tests.serving import serving

FILE = """
jobs:
  backup: {label: Nightly backup}
observers:
  ops-mail:
    channel: mail
    events: finish, clean
    config: {to: file@example.org}
  chat: {channel: slack, types: [job/create/*], config: {url: "%s"}}
"""


def test_a_file_configures_observers_at_every_start(tmp_path: Path, world: Outside, authority: trustme.CA) -> None:
    text = FILE % world.slack.url("file")
    environment = settings(world, tmp_path, authority, text)
    with serving(tmp_path / "data", **environment) as server:
        local = teller(server, world, "local")
        before = {name: local.ask("GET", name).json() for name in ("ops-mail", "chat")}
        assert before["ops-mail"]["events"] == "finish, clean"
        local.publish(job("create"), job("finish"))
        assert (local.settled("ops-mail", 1), local.settled("chat", 1)) == ({"sent": 1}, {"sent": 1})
    (tmp_path / "observers.yaml").write_text(text.replace("finish, clean", "clean"))
    with serving(tmp_path / "data", **environment) as server:
        local = teller(server, world, "local")
        changed = local.ask("GET", "ops-mail").json()
        assert (changed["events"], changed["since"]) == ("clean", before["ops-mail"]["since"])
        assert local.ask("GET", "chat").json() == before["chat"] | {"deliveries": changed["deliveries"]}
    assert world.subjects("file@example.org") == ["Job finished"]


BROKEN = {
    "no YAML": ("observers: [", "observers.yaml: while parsing"),
    "an unknown channel": ("observers: {ops: {channel: pigeon}}", "observers.yaml: observers.ops.channel"),
    "an unknown member": ("observer: {}", "observers.yaml: observer"),
    "no address": ("observers: {ops: {channel: mail}}", "observers.yaml: ops: No origin or destination address"),
    "a broken filter": ("observers: {ops: {channel: mail, filter: '(', config: {to: a@b.c}}}", "ops: a filter is"),
    "a bad name": ("observers: {'a b': {channel: mail, config: {to: a@b.c}}}", "an observer's name"),
    "a private one of nobody": ("observers: {ops: {channel: app, scope: private}}", "ops: "),
    "a list": ("[1]", "observers.yaml"),
    "no text": ("\udcff", "observers.yaml"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_server_with_a_broken_file_says_so_and_does_not_start(
    name: str, tmp_path: Path, world: Outside, authority: trustme.CA
) -> None:
    text, reason = BROKEN[name]
    environment = settings(world, tmp_path, authority, "")
    (tmp_path / "observers.yaml").write_text(text, errors="surrogateescape")
    with (
        pytest.raises(AssertionError, match="the server did not start") as raised,
        serving(tmp_path / "data", **environment),
    ):
        pass
    said = str(raised.value)
    assert "the observers cannot be configured: " in said
    assert reason in said
    assert "Traceback" not in said


def test_a_private_one_of_the_file_is_told_nothing_but_its_own(
    tmp_path: Path, world: Outside, authority: trustme.CA
) -> None:
    text = json.dumps(
        {"observers": {"mine": {"channel": "mail", "scope": "private", "config": {"to": "mine@example.org"}}}}
    )
    with serving(tmp_path / "data", **settings(world, tmp_path, authority, text)) as server:
        local = teller(server, world, "local")
        local.publish(job("create"), job("create", 2, props={"author": "anna"}), job("createJobSet"))
        local.publish(job("finish", props={"observer": "mine"}))
        assert local.settled("mine", 1) == {"sent": 1}
    assert world.subjects("mine@example.org") == ["Job finished"]
