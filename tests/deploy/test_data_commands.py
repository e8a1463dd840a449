"""Maintenance commands of a stage on AWS: restore its log, rebuild its views, retire an organization.

The tables are ministack's. It restores a table as of now, whatever point in time is requested, and supports everything
else that these commands need.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from chalicelib.adapters.dynamodb.items import TTL
from chalicelib.adapters.queue.sqs_outbox import SqsOutbox
from chalicelib.domain.errors import BadInput, NoSuchOrganization
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import AppMessage, Tries
from chalicelib.domain.notifications.delivery_message import DeliveryMessage, DeliveryState
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER, configuration_log, inbox_log
from chalicelib.domain.queries.event_seq import NonEmpty, Torn
from chalicelib.domain.views.record import VIEW_FORMAT
from chalicelib.services.reading.scan import find_position
from infra.deploy.data.commit_restore import LogDiverged
from infra.deploy.data.log_continuity import LogContinuity, check_continuity
from infra.deploy.data.organization_removal import OrganizationRemoval
from infra.deploy.data.point_in_time import UnusableTable
from infra.deploy.data.restore import RestoreResult, restore
from infra.deploy.data.retire import retire
from infra.deploy.stack import clients
from infra.deploy.stack.stage import NotDeployed, Stage
from infra.tools.view_rebuild import rebuild_all
from tests.adapters.channels.queues import a_delivery
from tests.builders import a_commit
from tests.deploy import deployment
from tests.deploy.stage_under_test import (
    InterceptedClient,
    StageUnderTest,
    Stopped,
    both_logs,
    small_template,
    stop_after,
)
from tests.torture.stores import REGION

if TYPE_CHECKING:
    from chalicelib.adapters.aws.client import Client

COMMITS = 12
LOSSES: dict[str, Sequence[int]] = {
    "none": (),
    "first": (1,),
    "last": (COMMITS,),
    "end": (10, 11, 12),
    "middle": (5, 6, 7),
    "scattered": (1, 3, 4, 8, 12),
    "all but first": tuple(range(2, COMMITS + 1)),
    "all": tuple(range(1, COMMITS + 1)),
}


DAY_2_US = 1_793_577_600_000_000
"""2 November 2026."""


def yes(_: str) -> bool:
    """Confirm."""
    return True


def no(_: str) -> bool:
    """Do not confirm."""
    return False


@pytest.fixture(name="prod")
def stage_under_test(
    ministack: str,
    ministack_client: Client,
    ministack_tables: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> StageUnderTest:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack)
    return StageUnderTest(Stage("prod", *ministack_tables), ministack_client)


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
def test_restore_lost_commits_copies_them_once(prod: StageUnderTest, lost: Sequence[int]) -> None:
    acme, other = prod.organization("acme", COMMITS), prod.organization("other", 2)
    before, table = prod.commits(), prod.restore_backup()
    prod.lose(acme, lost)
    chains = {DIRECTORY_SERVER: LogContinuity(1, 2), acme: LogContinuity(1, COMMITS), other: LogContinuity(1, 2)}
    there = len(before) - len(lost)
    assert restore(prod.stage, table, prod.client, yes) == RestoreResult(there, len(lost), 0, chains)
    assert prod.commits() == before
    assert restore(prod.stage, table, prod.client, no) == RestoreResult(len(before), 0, 0, chains)


def test_restore_keeps_commits_after_point_in_time(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 5)
    table = prod.restore_backup()
    prod.publish(acme, "/later")
    before = prod.commits()
    prod.lose(acme, [2, 4])
    restored = restore(prod.stage, table, prod.client, yes)
    assert restored == RestoreResult(4, 2, 0, {DIRECTORY_SERVER: LogContinuity(1, 1), acme: LogContinuity(1, 6)})
    assert prod.commits() == before


def test_restore_includes_directory_and_observers(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 1)
    observer = Configuration(channel="app", config={"to": "anna"})
    prod.components.notifications.observers.put(acme, "ops", observer)
    table = prod.restore_backup()
    prod.lose(DIRECTORY_SERVER, [1])
    prod.lose(configuration_log(acme), [1])
    restored = restore(prod.stage, table, prod.client, yes)
    assert restored is not None
    assert restored.restored == 2
    assert prod.components.log.organizations.server("acme") == acme
    assert list(prod.components.notifications.observers.load(acme).observers) == ["ops"]


def test_restore_reports_gap_of_restored_table(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 9)
    prod.lose(acme, [3, 4])
    table = prod.restore_backup()
    prod.lose(acme, [7])
    restored = restore(prod.stage, table, prod.client, yes)
    assert restored is not None
    assert restored.continuity[acme] == LogContinuity(1, 9, ((2, 5),))
    assert str(restored.continuity[acme]) == "sessions 1 to 9 with GAPS: between 2 and 5"


def test_restore_skips_expired_commits_without_gap(prod: StageUnderTest) -> None:
    for commit in (a_commit(session) for session in range(1, 7)):
        expires_s = 1_000 if commit.session <= 3 else 2**40
        prod.put(commit, expires_s)
    table = prod.restore_backup()
    prod.lose(1, [1, 2, 5])
    # The third commit has expired, but DynamoDB has not deleted it yet.
    assert restore(prod.stage, table, prod.client, yes) == RestoreResult(2, 1, 3, {1: LogContinuity(4, 6)})
    assert prod.sessions(1) == [3, 4, 5, 6]
    assert prod.commits()[1, 5][TTL] == {"N": str(2**40)}


def test_restore_reused_session_raises_before_writing(prod: StageUnderTest) -> None:
    acme, other = prod.organization("acme", 6), prod.organization("other", 3)
    table = prod.restore_backup()
    prod.lose(other, [1])
    prod.lose(acme, [4, 5, 6])
    assert prod.publish(acme, "/after-restore") == 4
    before = prod.commits()
    with pytest.raises(LogDiverged, match=f"session 4 of server {acme} was reused"):
        restore(prod.stage, table, prod.client, yes)
    assert prod.commits() == before


def test_restore_same_request_other_content_raises_log_diverged(prod: StageUnderTest) -> None:
    prod.put(a_commit(1))
    table = prod.restore_backup()
    prod.put(a_commit(1, texts=('{"type":["else"]}',)))
    with pytest.raises(LogDiverged):
        restore(prod.stage, table, prod.client, yes)


def test_restore_session_reused_during_prompt_raises(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 6)
    table = prod.restore_backup()
    prod.lose(acme, [4, 5, 6])

    def confirm_late(_: str) -> bool:
        return prod.publish(acme, "/meanwhile") == 4

    with pytest.raises(LogDiverged, match="session 4"):
        restore(prod.stage, table, prod.client, confirm_late)
    assert prod.sessions(acme) == [1, 2, 3, 4]
    assert prod.keys(acme)[-1] == "/meanwhile"


def test_restore_session_reused_during_copy_raises(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 6)
    table = prod.restore_backup()
    prod.lose(acme, [3, 4, 5, 6])
    puts = count(1)

    def publish_before_second_put() -> None:
        if next(puts) == 2:
            prod.publish(acme, "/meanwhile")

    with pytest.raises(LogDiverged, match="session 4"):
        restore(prod.stage, table, InterceptedClient(prod.client, "PutItem", publish_before_second_put), yes)
    assert prod.sessions(acme) == [1, 2, 3, 4]
    assert prod.keys(acme)[-1] == "/meanwhile"


def test_restore_twice_at_once_succeeds(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 6)
    before, table = prod.commits(), prod.restore_backup()
    prod.lose(acme, [2, 4, 6])

    def confirm_and_restore(_: str) -> bool:
        return restore(prod.stage, table, prod.client, yes) is not None

    restored = restore(prod.stage, table, prod.client, confirm_and_restore)
    assert restored is not None
    assert (restored.restored, restored.continuity[acme]) == (0, LogContinuity(1, 6))
    assert prod.commits() == before


def test_restore_interrupted_resumes(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", COMMITS)
    before, table = prod.commits(), prod.restore_backup()
    prod.lose(acme, range(4, COMMITS + 1))
    with pytest.raises(Stopped):
        restore(prod.stage, table, stop_after(prod.client, "PutItem", 3), yes)
    assert prod.sessions(acme) == [1, 2, 3, 4, 5, 6]
    restored = restore(prod.stage, table, prod.client, yes)
    assert restored is not None
    assert restored.restored == COMMITS - 6
    assert prod.commits() == before


@pytest.mark.parametrize("is_dry", [False, True], ids=["not confirmed", "dry run"])
def test_restore_unconfirmed_or_dry_run_writes_nothing(prod: StageUnderTest, is_dry: bool) -> None:
    acme = prod.organization("acme", 4)
    table = prod.restore_backup()
    prod.lose(acme, [2])
    restored = restore(prod.stage, table, prod.client, yes if is_dry else no, dry_run=is_dry)
    assert (restored and restored.continuity[acme]) == (LogContinuity(1, 4, ((1, 3),)) if is_dry else None)
    assert prod.sessions(acme) == [1, 3, 4]


def test_restore_table_of_earlier_run_is_reused(prod: StageUnderTest) -> None:
    prod.organization("acme", 1)
    assert prod.restore_backup() == prod.restore_backup() == f"{prod.stage.log_table}-restored-20261116T100000Z"


def test_restore_from_other_table_raises_unusable_table(prod: StageUnderTest) -> None:
    with pytest.raises(UnusableTable, match="is the live log table"):
        restore(prod.stage, prod.stage.log_table, prod.client, yes)
    with pytest.raises(UnusableTable, match="is not a log table"):
        restore(prod.stage, prod.stage.views_table, prod.client, yes)


def test_rebuild_after_damage_restores_views(prod: StageUnderTest) -> None:
    acme, other = prod.organization("acme", COMMITS), prod.organization("other", 3)
    prod.components.notifications.inbox.put(AppMessage("1", acme, "anna", "ops", "subject", "body", Id(acme, 1, 1)))
    logs = (DIRECTORY_SERVER, acme, inbox_log(acme), other)
    prod.project(*logs)
    before = _generations(prod)
    for view in (f"{acme}.{VIEW_FORMAT}.1/latest", f"{acme}.{VIEW_FORMAT}.1/block"):
        while prod.components.stores.views.drop(view):
            pass
    assert _generations(prod) != before
    rebuild_all(prod.components)
    after = _generations(prod)
    assert {generation for generation, _ in before} == {"1"}
    assert {record for _, record in before} == {record for generation, record in after if generation == "2"}


def test_rebuild_expired_log_keeps_session_number(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 5)
    prod.project(acme)
    prod.lose(acme, range(1, 6))
    with_retention = StageUnderTest(Stage("prod", prod.stage.log_table, prod.stage.views_table, "", "P1D"), prod.client)
    rebuild_all(with_retention.components)
    assert with_retention.publish(acme, "/later") == 6


def test_retire_deletes_all_data_of_organization(prod: StageUnderTest) -> None:
    components = prod.components
    other, acme = prod.organization("other", 4), prod.organization("acme", 60)
    _add_observer(prod, acme)
    _add_observer(prod, other)
    prod.project(*both_logs(acme), *both_logs(other))
    last, other_data = components.stores.log.head(acme), _data_of(prod, other)
    assert retire(prod.stage, "acme", None, prod.client, yes)
    assert prod.sessions(acme) == [61]
    assert prod.keys(acme) == [None]
    assert prod.keys(acme, "job") == prod.keys(inbox_log(acme), "inbox") == []
    assert prod.components.notifications.observers.load(acme).observers == {}
    assert prod.components.expectations.registry.load(acme) == {}
    assert prod.sessions(configuration_log(acme)) == [1, 2]
    assert [view for view, _ in prod.views() if re.match(rf"{acme}/(delivery|parked)", view)] == []
    assert {view.split("/")[0] for view, _ in prod.views() if view.startswith(f"{acme}.")} == {
        f"{acme}.{VIEW_FORMAT}.2"
    }
    assert _data_of(prod, other) == other_data
    assert prod.follow(acme, 0) == prod.follow(acme, last.last_event_id - 1) == Torn(last.last_event_id)
    assert isinstance(prod.follow(acme, last.last_event_id), NonEmpty)


def test_publish_after_retire_continues_session_numbers(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 3)
    last = prod.components.stores.log.head(acme).last_event_id
    retire(prod.stage, "acme", None, prod.client, yes)
    assert prod.publish(acme, "/again") == 5
    assert prod.keys(acme) == [None, "/again"]
    assert prod.components.stores.log.head(acme).last_event_id > last
    assert prod.components.log.organizations.create("new")[0].server == acme + 1


def test_retired_log_expired_later_keeps_session_number(prod: StageUnderTest) -> None:
    stage_with_retention = Stage("prod", prod.stage.log_table, prod.stage.views_table, "", "P1D")
    with_retention = StageUnderTest(stage_with_retention, prod.client)
    acme = with_retention.organization("acme", 3)
    retire(stage_with_retention, "acme", None, prod.client, yes)
    with_retention.lose(acme, [4])
    assert with_retention.publish(acme, "/again") == 5


def test_retire_expired_log_keeps_session_number(prod: StageUnderTest) -> None:
    stage_with_retention = Stage("prod", prod.stage.log_table, prod.stage.views_table, "", "P1D")
    with_retention = StageUnderTest(stage_with_retention, prod.client)
    acme = with_retention.organization("acme", 3)
    with_retention.project(acme)
    with_retention.lose(acme, [1, 2, 3])
    retire(stage_with_retention, "acme", None, prod.client, yes)
    assert with_retention.sessions(acme) == [4]
    assert with_retention.publish(acme, "/again") == 5


@pytest.mark.parametrize(("before_us", "kept"), [(None, 7), (2**52, 6)], ids=["all events", "old events"])
def test_retire_log_with_retention_gaps_succeeds(prod: StageUnderTest, before_us: int | None, kept: int) -> None:
    stage_with_retention = Stage("prod", prod.stage.log_table, prod.stage.views_table, "", "P1D")
    with_retention = StageUnderTest(stage_with_retention, prod.client)
    acme = with_retention.organization("acme", 0)
    for session in (1, 3, 6):
        with_retention.put(a_commit(session), 1_000)
    assert retire(stage_with_retention, "acme", before_us, prod.client, yes)
    assert with_retention.sessions(acme) == [kept]
    assert with_retention.publish(acme, "/again") == kept + 1


@pytest.mark.parametrize(
    ("before_us", "kept_days"),
    [(None, ()), (DAY_2_US, ("2026-11-02", "2026-11-03"))],
    ids=["all events", "old events"],
)
def test_retire_deletes_history_and_reports(
    prod: StageUnderTest, before_us: int | None, kept_days: tuple[str, ...]
) -> None:
    """Files of the same days of two organizations, of which one number begins with the other."""
    bucket, s3 = f"lake-{uuid.uuid4().hex}", clients.client("s3")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})
    acme = prod.organization("acme", 1)
    folders = ("lake/events", "lake/reports/job_runs", "lake/_parts/1/throughput")
    files = {
        server: [f"{folder}/server={server}/day=2026-11-0{day}/a.parquet" for folder in folders for day in (1, 2, 3)]
        for server in (acme, 10 * acme)
    }
    pages = [f"lake/reports/report-{server}.html" for server in files]
    for key in (*files[acme], *files[10 * acme], *pages, "lake/_exports/00000001.json"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    assert retire(replace(prod.stage, export_bucket=bucket), "acme", before_us, prod.client, yes)
    kept = [key for key in files[acme] if any(f"day={day}/" in key for day in kept_days)]
    found = {file["Key"] for file in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    assert found == {*kept, *files[10 * acme], *pages[0 if kept else 1 :], "lake/_exports/00000001.json"}


def test_retire_twice_changes_nothing(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 3)
    _add_observer(prod, acme)
    retire(prod.stage, "acme", None, prod.client, yes)
    before = prod.commits()
    retire(prod.stage, "acme", None, prod.client, yes)
    assert prod.commits() == before


def test_retire_interrupted_has_no_gap_and_resumes(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 60)
    with pytest.raises(Stopped):
        retire(prod.stage, "acme", None, stop_after(prod.client, "BatchWriteItem", 1), yes)
    assert check_continuity(prod.client, prod.stage.log_table, acme, 0) == LogContinuity(26, 61)
    assert isinstance(prod.follow(acme, 0), Torn)
    assert retire(prod.stage, "acme", None, prod.client, yes)
    assert prod.sessions(acme) == [61]


@pytest.mark.parametrize("kept", [1, 4, 10, 12], ids=lambda kept: f"before commit {kept}")
def test_retire_before_time_deletes_older_events_only(prod: StageUnderTest, kept: int) -> None:
    acme = prod.organization("acme", COMMITS)
    _add_observer(prod, acme)
    prod.project(acme)
    first = prod.components.stores.log.commit(acme, kept)
    assert first is not None
    assert (
        find_position(prod.components.stores.log, prod.components.stores.log.head(acme), first.at_us - 1).session
        == kept - 1
    )
    assert retire(prod.stage, "acme", first.at_us, prod.client, yes)
    assert prod.sessions(acme) == list(range(kept, COMMITS + 1))
    expected = [f"/acme/{number}" for number in range(kept - 1, COMMITS) for _ in range(1 + number % 3)]
    assert prod.keys(acme) == prod.keys(acme, "job") == expected
    assert list(prod.components.notifications.observers.load(acme).observers) == ["ops"]


def test_retire_before_time_keeps_last_commit(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 3)
    retire(prod.stage, "acme", 2**52, prod.client, yes)
    assert prod.sessions(acme) == [3]
    assert prod.publish(acme, "/again") == 4


def test_retire_unconfirmed_deletes_nothing(prod: StageUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    acme = prod.organization("acme", 4)
    _add_observer(prod, acme)
    before = prod.commits()
    assert not retire(prod.stage, "acme", None, prod.client, no)
    assert prod.commits() == before
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:5] for line in shown] == [
        ["acme", "4", "commits", "with", "7"],
        ["acme", "(inbox)", "1", "commits", "with"],
    ]


def test_retire_empty_organization_succeeds(prod: StageUnderTest) -> None:
    acme = prod.organization("acme", 0)
    assert retire(prod.stage, "acme", None, prod.client, yes)
    assert (prod.sessions(acme), prod.publish(acme, "/first")) == ([], 1)


@pytest.mark.parametrize("server", [DIRECTORY_SERVER, configuration_log(1)], ids=["directory", "observers"])
def test_retire_configuration_log_raises_bad_input(prod: StageUnderTest, server: int) -> None:
    prod.organization("acme", 1)
    before = prod.commits()
    removal = OrganizationRemoval(prod.components, prod.client, prod.stage.log_table)
    with pytest.raises(BadInput, match="kept forever"):
        removal.plan(server)
    with pytest.raises(BadInput, match="kept forever"):
        removal.delete(server, lambda _: None)
    with pytest.raises(NoSuchOrganization):
        retire(prod.stage, "(organizations)", None, prod.client, yes)
    assert prod.commits() == before


@pytest.fixture(name="deployed")
def deployed_stage(ministack: str, prod: StageUnderTest) -> Iterator[StageUnderTest]:
    """A stack with the resources that the commands use."""
    cloudformation = deployment.aws_client(ministack, "cloudformation")
    cloudformation.create_stack(StackName="annals-prod", TemplateBody=small_template())
    deployment.eventually(lambda: _status(cloudformation), lambda status: status == "CREATE_COMPLETE")
    yield StageUnderTest(Stage.from_stack("prod"), prod.client)
    cloudformation.delete_stack(StackName="annals-prod")
    cloudformation.close()


def test_commands_find_stage_by_its_stack(ministack: str, deployed: StageUnderTest) -> None:
    acme = deployed.organization("acme", 5)
    table = deployed.restore_backup()
    deployed.lose(acme, [2, 3])
    output = _run_command(ministack, "restore", "--to", "2026-11-16T10:00:00Z", "--yes")
    assert "Already present: 4; restored: 2; past retention: 0." in output
    assert "acme                           sessions 1 to 5 without gaps" in output
    assert f"aws dynamodb delete-table --table-name {table}" in output
    assert f"{'acme':20} views rebuilt" in _run_command(ministack, "rebuild")
    assert "Nothing was deleted." in _run_command(ministack, "retire", "--org", "acme", code=1)
    assert "acme is retired.\n1 functions restarted." in _run_command(ministack, "retire", "--org", "acme", "--yes")
    assert deployed.sessions(acme) == [6]


def test_stage_without_stack_raises_not_deployed(prod: StageUnderTest) -> None:
    del prod
    with pytest.raises(NotDeployed, match="there is no stack annals-dev"):
        Stage.from_stack("dev")


def _add_observer(prod: StageUnderTest, server: int) -> None:
    """Create an observer with a message, a sent delivery and a parked delivery."""
    components = prod.components
    components.notifications.observers.put(server, "ops", Configuration(channel="app", config={"to": "anna"}))
    components.notifications.inbox.put(
        AppMessage(f"{server}", server, "anna", "ops", "subject", "body", Id(server, 1, 1))
    )
    outbox = components.stores.outbox
    assert isinstance(outbox, SqsOutbox)
    sent, parked = DeliveryMessage(a_delivery(1, server=server)), DeliveryMessage(a_delivery(2, server=server))
    outbox.record_done(sent, "sent", DeliveryState())
    outbox.park(parked, Tries(5), "no such host", DeliveryState())


def _data_of(prod: StageUnderTest, server: int) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """All commits and views of an organization."""
    logs = {*both_logs(server), configuration_log(server)}
    views = {
        place: record
        for place, record in prod.views().items()
        if re.match(rf"({'|'.join(map(str, logs))})[./]", place[0])
    }
    return {place: item for place, item in prod.commits().items() if place[0] in logs}, views


def _generations(prod: StageUnderTest) -> set[tuple[str, Any]]:
    """The records of all views with their generation, without their checksums, which depend on it."""
    matches = (
        (re.fullmatch(rf"(-?\d+)\.{VIEW_FORMAT}\.(\d+)/(.*)", view), item, record)
        for (view, item), record in prod.views().items()
    )
    return {
        (match[2], (match[1], match[3], item, tuple(value for value in record if not value.startswith("crc="))))
        for match, item, record in matches
        if match is not None
    }


def _status(cloudformation: Any) -> str:
    status: str = cloudformation.describe_stacks(StackName="annals-prod")["Stacks"][0]["StackStatus"]
    return status


def _run_command(endpoint: str, command: str, *arguments: str, code: int = 0) -> str:
    """Run a command without a terminal. Returns its output."""
    credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
    process = deployment.command(command, "--stage", "prod", *arguments, AWS_ENDPOINT_URL=endpoint, **credentials)
    output, _ = process.communicate(timeout=deployment.DEPLOY_TIMEOUT_S)
    assert process.returncode == code, output
    return output
