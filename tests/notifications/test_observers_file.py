"""The observers file: applied at every start, and validated."""

import json
from pathlib import Path

import pytest
import trustme

from tests.notifications.fake_channels import FakeChannels
from tests.notifications.observer_client import create_observer_client, job, server_environment
from tests.serving import run_server

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


def test_observers_file_is_applied_at_every_start(
    tmp_path: Path, channels: FakeChannels, authority: trustme.CA
) -> None:
    text = FILE % channels.slack.url("file")
    environment = server_environment(channels, tmp_path, authority, text)
    with run_server(tmp_path / "data", **environment) as server:
        local = create_observer_client(server, channels, "local")
        before = {name: local.request("GET", name).json() for name in ("ops-mail", "chat")}
        assert before["ops-mail"]["events"] == "finish, clean"
        local.publish(job("create"), job("finish"))
        assert (local.wait_until_settled("ops-mail", 1), local.wait_until_settled("chat", 1)) == (
            {"sent": 1},
            {"sent": 1},
        )
    (tmp_path / "observers.yaml").write_text(text.replace("finish, clean", "clean"))
    with run_server(tmp_path / "data", **environment) as server:
        local = create_observer_client(server, channels, "local")
        changed = local.request("GET", "ops-mail").json()
        assert (changed["events"], changed["since"]) == ("clean", before["ops-mail"]["since"])
        assert local.request("GET", "chat").json() == before["chat"] | {"deliveries": changed["deliveries"]}
    assert channels.subjects("file@example.org") == ["Succeeded backup on n1 (#1): done"]


BROKEN = {
    "invalid YAML": ("observers: [", "observers.yaml: while parsing"),
    "an unknown channel": ("observers: {ops: {channel: pigeon}}", "observers.yaml: observers.ops.channel"),
    "an unknown field": ("observer: {}", "observers.yaml: observer"),
    "no address": ("observers: {ops: {channel: mail}}", "observers.yaml: ops: No origin or destination address"),
    "a broken filter": ("observers: {ops: {channel: mail, filter: '(', config: {to: a@b.c}}}", "ops: a filter is"),
    "a bad name": ("observers: {'a b': {channel: mail, config: {to: a@b.c}}}", "an observer's name"),
    "a private observer without user": ("observers: {ops: {channel: app, scope: private}}", "ops: "),
    "a list": ("[1]", "observers.yaml"),
    "invalid UTF-8": ("\udcff", "observers.yaml"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_server_with_broken_observers_file_does_not_start(
    name: str, tmp_path: Path, channels: FakeChannels, authority: trustme.CA
) -> None:
    text, reason = BROKEN[name]
    environment = server_environment(channels, tmp_path, authority, "")
    (tmp_path / "observers.yaml").write_text(text, errors="surrogateescape")
    with (
        pytest.raises(AssertionError, match="the server did not start") as raised,
        run_server(tmp_path / "data", **environment),
    ):
        pass
    said = str(raised.value)
    assert "the observers cannot be configured: " in said
    assert reason in said
    assert "Traceback" not in said


def test_private_observer_of_file_gets_only_addressed_events(
    tmp_path: Path, channels: FakeChannels, authority: trustme.CA
) -> None:
    text = json.dumps(
        {"observers": {"mine": {"channel": "mail", "scope": "private", "config": {"to": "mine@example.org"}}}}
    )
    with run_server(tmp_path / "data", **server_environment(channels, tmp_path, authority, text)) as server:
        local = create_observer_client(server, channels, "local")
        local.publish(job("create"), job("create", 2, props={"author": "anna"}), job("createJobSet"))
        local.publish(job("finish", props={"observer": "mine"}))
        assert local.wait_until_settled("mine", 1) == {"sent": 1}
    assert channels.subjects("mine@example.org") == ["Succeeded backup on n1 (#1): done"]
