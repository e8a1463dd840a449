"""What an operator does to a stage on AWS: restore its log, rebuild its views, retire an organization.

The tables are ministack's. It makes a table from another as it is now, whatever point in time is asked for; all else
that these commands need of DynamoDB it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from chalicelib.adapters.dynamodb.items import TTL
from chalicelib.domain.errors import BadInput, NoSuchOrganization
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import AppMessage, Parked
from chalicelib.domain.notifications.delivery_message import Queued, Standing
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.domain.organizations.organization import DIRECTORY, configuration_of, inbox_of
from chalicelib.domain.queries.event_seq import NonEmpty, Torn
from chalicelib.domain.views.record import FORMAT
from chalicelib.services.reading.scan import session_at
from infra.deploy.data.commit_restore import Diverged
from infra.deploy.data.log_continuity import Chain, chain_of
from infra.deploy.data.organization_removal import Retiring
from infra.deploy.data.point_in_time import NotRestored
from infra.deploy.data.restore import Restored, restore
from infra.deploy.data.retire import retire
from infra.deploy.stack.stage import NotDeployed, Stage
from infra.tools.rebuilding import rebuild_all
from tests.adapters.channels.queues import a_delivery
from tests.builders import a_commit
from tests.deploy import deployment
from tests.deploy.operated import Interrupted, Operated, Stopped, a_small_template, both_logs, stopped_after
from tests.torture.stores import REGION

if TYPE_CHECKING:
    from chalicelib.adapters.aws.client import Client

COMMITS = 12
LOSSES: dict[str, Sequence[int]] = {
    "nothing": (),
    "the first": (1,),
    "the last": (COMMITS,),
    "the end": (10, 11, 12),
    "a piece amid": (5, 6, 7),
    "here and there": (1, 3, 4, 8, 12),
    "all but one": tuple(range(2, COMMITS + 1)),
    "all": tuple(range(1, COMMITS + 1)),
}


def yes(_: str) -> bool:
    """Whoever is asked agrees."""
    return True


def no(_: str) -> bool:
    """Whoever is asked does not."""
    return False


@pytest.fixture(name="operated")
def an_operated_stage(
    ministack: str,
    ministack_client: Client,
    ministack_tables: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Operated:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack)
    return Operated(Stage("prod", *ministack_tables), ministack_client)


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
def test_what_is_lost_is_put_back_and_a_second_run_has_nothing_to_do(operated: Operated, lost: Sequence[int]) -> None:
    acme, other = operated.organization("acme", COMMITS), operated.organization("other", 2)
    before, table = operated.commits(), operated.backed_up()
    operated.lose(acme, lost)
    chains = {DIRECTORY: Chain(1, 2), acme: Chain(1, COMMITS), other: Chain(1, 2)}
    there = len(before) - len(lost)
    assert restore(operated.stage, table, operated.client, yes) == Restored(there, len(lost), 0, chains)
    assert operated.commits() == before
    assert restore(operated.stage, table, operated.client, no) == Restored(len(before), 0, 0, chains)


def test_what_came_after_the_point_in_time_stays(operated: Operated) -> None:
    acme = operated.organization("acme", 5)
    table = operated.backed_up()
    operated.publish(acme, "/later")
    before = operated.commits()
    operated.lose(acme, [2, 4])
    restored = restore(operated.stage, table, operated.client, yes)
    assert restored == Restored(4, 2, 0, {DIRECTORY: Chain(1, 1), acme: Chain(1, 6)})
    assert operated.commits() == before


def test_the_directory_and_the_observers_come_back_too(operated: Operated) -> None:
    acme = operated.organization("acme", 1)
    observer = Configuration(channel="app", config={"to": "anna"})
    operated.parts.observers.put(acme, "ops", observer)
    table = operated.backed_up()
    operated.lose(DIRECTORY, [1])
    operated.lose(configuration_of(acme), [1])
    restored = restore(operated.stage, table, operated.client, yes)
    assert restored is not None
    assert restored.put_back == 2
    assert operated.parts.organizations.server("acme") == acme
    assert list(operated.parts.observers.of(acme).observers) == ["ops"]


def test_a_gap_that_the_restored_table_has_too_is_told(operated: Operated) -> None:
    acme = operated.organization("acme", 9)
    operated.lose(acme, [3, 4])
    table = operated.backed_up()
    operated.lose(acme, [7])
    restored = restore(operated.stage, table, operated.client, yes)
    assert restored is not None
    assert restored.chains[acme] == Chain(1, 9, ((2, 5),))
    assert str(restored.chains[acme]) == "sessions 1 to 9 with GAPS: between 2 and 5"


def test_what_is_past_retention_is_not_put_back_and_makes_no_gap(operated: Operated) -> None:
    for commit in (a_commit(session) for session in range(1, 7)):
        expires_s = 1_000 if commit.session <= 3 else 2**40
        operated.put(commit, expires_s)
    table = operated.backed_up()
    operated.lose(1, [1, 2, 5])
    # The third may be deleted any time, but is not yet.
    assert restore(operated.stage, table, operated.client, yes) == Restored(2, 1, 3, {1: Chain(4, 6)})
    assert operated.sessions(1) == [3, 4, 5, 6]
    assert operated.commits()[1, 5][TTL] == {"N": str(2**40)}


def test_a_number_that_was_used_again_stops_everything_before_anything_is_written(operated: Operated) -> None:
    acme, other = operated.organization("acme", 6), operated.organization("other", 3)
    table = operated.backed_up()
    operated.lose(other, [1])
    operated.lose(acme, [4, 5, 6])
    assert operated.publish(acme, "/anew") == 4
    before = operated.commits()
    with pytest.raises(Diverged, match=f"session 4 of server {acme} was used again"):
        restore(operated.stage, table, operated.client, yes)
    assert operated.commits() == before


def test_the_same_request_with_other_content_is_no_less_a_divergence(operated: Operated) -> None:
    operated.put(a_commit(1))
    table = operated.backed_up()
    operated.put(a_commit(1, texts=('{"type":["else"]}',)))
    with pytest.raises(Diverged):
        restore(operated.stage, table, operated.client, yes)


def test_a_number_that_is_used_again_while_the_operator_thinks_stops_everything(operated: Operated) -> None:
    acme = operated.organization("acme", 6)
    table = operated.backed_up()
    operated.lose(acme, [4, 5, 6])

    def agreed_too_late(_: str) -> bool:
        return operated.publish(acme, "/meanwhile") == 4

    with pytest.raises(Diverged, match="session 4"):
        restore(operated.stage, table, operated.client, agreed_too_late)
    assert operated.sessions(acme) == [1, 2, 3, 4]
    assert operated.keys(acme)[-1] == "/meanwhile"


def test_a_number_that_is_used_again_at_the_last_moment_stops_what_follows(operated: Operated) -> None:
    acme = operated.organization("acme", 6)
    table = operated.backed_up()
    operated.lose(acme, [3, 4, 5, 6])
    puts = count(1)

    def second() -> None:
        if next(puts) == 2:
            operated.publish(acme, "/meanwhile")

    with pytest.raises(Diverged, match="session 4"):
        restore(operated.stage, table, Interrupted(operated.client, "PutItem", second), yes)
    assert operated.sessions(acme) == [1, 2, 3, 4]
    assert operated.keys(acme)[-1] == "/meanwhile"


def test_two_who_restore_at_the_same_time_do_no_harm(operated: Operated) -> None:
    acme = operated.organization("acme", 6)
    before, table = operated.commits(), operated.backed_up()
    operated.lose(acme, [2, 4, 6])

    def also_agreed(_: str) -> bool:
        return restore(operated.stage, table, operated.client, yes) is not None

    restored = restore(operated.stage, table, operated.client, also_agreed)
    assert restored is not None
    assert (restored.put_back, restored.chains[acme]) == (0, Chain(1, 6))
    assert operated.commits() == before


def test_a_restoration_that_was_stopped_goes_on_where_it_was(operated: Operated) -> None:
    acme = operated.organization("acme", COMMITS)
    before, table = operated.commits(), operated.backed_up()
    operated.lose(acme, range(4, COMMITS + 1))
    with pytest.raises(Stopped):
        restore(operated.stage, table, stopped_after(operated.client, "PutItem", 3), yes)
    assert operated.sessions(acme) == [1, 2, 3, 4, 5, 6]
    restored = restore(operated.stage, table, operated.client, yes)
    assert restored is not None
    assert restored.put_back == COMMITS - 6
    assert operated.commits() == before


@pytest.mark.parametrize("is_dry", [False, True], ids=["somebody says no", "a dry run"])
def test_nothing_is_put_back_unless_that_is_wanted(operated: Operated, is_dry: bool) -> None:
    acme = operated.organization("acme", 4)
    table = operated.backed_up()
    operated.lose(acme, [2])
    restored = restore(operated.stage, table, operated.client, yes if is_dry else no, dry_run=is_dry)
    assert (restored and restored.chains[acme]) == (Chain(1, 4, ((1, 3),)) if is_dry else None)
    assert operated.sessions(acme) == [1, 3, 4]


def test_a_table_from_an_earlier_run_is_used_again(operated: Operated) -> None:
    operated.organization("acme", 1)
    assert operated.backed_up() == operated.backed_up() == f"{operated.stage.log_table}-restored-20261116T100000Z"


def test_only_the_table_of_another_log_can_be_restored_from(operated: Operated) -> None:
    with pytest.raises(NotRestored, match="own table"):
        restore(operated.stage, operated.stage.log_table, operated.client, yes)
    with pytest.raises(NotRestored, match="no table of a log"):
        restore(operated.stage, operated.stage.views_table, operated.client, yes)


def test_rebuilt_views_are_what_they_were_whatever_was_done_to_them(operated: Operated) -> None:
    acme, other = operated.organization("acme", COMMITS), operated.organization("other", 3)
    operated.parts.inbox.put(AppMessage("1", acme, "anna", "ops", "subject", "body", Id(acme, 1, 1)))
    logs = (DIRECTORY, acme, inbox_of(acme), other)
    operated.project(*logs)
    before = _generations(operated)
    for view in (f"{acme}.{FORMAT}.1/latest", f"{acme}.{FORMAT}.1/block"):
        while operated.parts.views.drop(view):
            pass
    assert _generations(operated) != before
    rebuild_all(operated.parts)
    after = _generations(operated)
    assert {generation for generation, _ in before} == {"1"}
    assert {generation for generation, _ in after} == {"2"}
    assert {record for _, record in before} == {record for _, record in after}


def test_a_log_that_retention_has_emptied_keeps_its_number_when_views_are_rebuilt(operated: Operated) -> None:
    acme = operated.organization("acme", 5)
    operated.project(acme)
    operated.lose(acme, range(1, 6))
    kept_short = Operated(
        Stage("prod", operated.stage.log_table, operated.stage.views_table, "", "P1D"), operated.client
    )
    rebuild_all(kept_short.parts)
    assert kept_short.publish(acme, "/later") == 6


def test_of_an_organization_that_left_nothing_is_found_any_more(operated: Operated) -> None:
    parts = operated.parts
    other, acme = operated.organization("other", 4), operated.organization("acme", 60)
    _observe(operated, acme)
    _observe(operated, other)
    operated.project(*both_logs(acme), *both_logs(other))
    last, others = parts.log.head(acme), _of(operated, other)
    assert retire(operated.stage, "acme", None, operated.client, yes)
    assert operated.sessions(acme) == [61]
    assert operated.keys(acme) == [None]
    assert operated.keys(acme, "job") == operated.keys(inbox_of(acme), "inbox") == []
    assert operated.parts.observers.of(acme).observers == {}
    assert operated.sessions(configuration_of(acme)) == [1, 2]
    assert [view for view, _ in operated.views() if re.match(rf"{acme}/(delivery|parked)", view)] == []
    assert {view.split("/")[0] for view, _ in operated.views() if view.startswith(f"{acme}.")} == {f"{acme}.{FORMAT}.2"}
    assert _of(operated, other) == others
    assert operated.follow(acme, 0) == operated.follow(acme, last.last - 1) == Torn(last.last)
    assert isinstance(operated.follow(acme, last.last), NonEmpty)


def test_who_publishes_to_a_retired_organization_goes_on_with_higher_numbers(operated: Operated) -> None:
    acme = operated.organization("acme", 3)
    last = operated.parts.log.head(acme).last
    retire(operated.stage, "acme", None, operated.client, yes)
    assert operated.publish(acme, "/again") == 5
    assert operated.keys(acme) == [None, "/again"]
    assert operated.parts.log.head(acme).last > last
    assert operated.parts.organizations.create("new")[0].server == acme + 1


def test_a_retired_log_that_retention_empties_keeps_its_number(operated: Operated) -> None:
    stage = Stage("prod", operated.stage.log_table, operated.stage.views_table, "", "P1D")
    kept_short = Operated(stage, operated.client)
    acme = kept_short.organization("acme", 3)
    retire(stage, "acme", None, operated.client, yes)
    kept_short.lose(acme, [4])
    assert kept_short.publish(acme, "/again") == 5


def test_a_log_that_retention_had_emptied_keeps_its_number_when_it_is_retired(operated: Operated) -> None:
    stage = Stage("prod", operated.stage.log_table, operated.stage.views_table, "", "P1D")
    kept_short = Operated(stage, operated.client)
    acme = kept_short.organization("acme", 3)
    kept_short.project(acme)
    kept_short.lose(acme, [1, 2, 3])
    retire(stage, "acme", None, operated.client, yes)
    assert kept_short.sessions(acme) == [4]
    assert kept_short.publish(acme, "/again") == 5


@pytest.mark.parametrize(("before_us", "kept"), [(None, 7), (2**52, 6)], ids=["all of it", "what is old"])
def test_a_log_in_which_retention_has_left_gaps_can_be_retired(
    operated: Operated, before_us: int | None, kept: int
) -> None:
    stage = Stage("prod", operated.stage.log_table, operated.stage.views_table, "", "P1D")
    kept_short = Operated(stage, operated.client)
    acme = kept_short.organization("acme", 0)
    for session in (1, 3, 6):
        kept_short.put(a_commit(session), 1_000)
    assert retire(stage, "acme", before_us, operated.client, yes)
    assert kept_short.sessions(acme) == [kept]
    assert kept_short.publish(acme, "/again") == kept + 1


def test_to_retire_twice_changes_nothing_more(operated: Operated) -> None:
    acme = operated.organization("acme", 3)
    _observe(operated, acme)
    retire(operated.stage, "acme", None, operated.client, yes)
    before = operated.commits()
    retire(operated.stage, "acme", None, operated.client, yes)
    assert operated.commits() == before


def test_a_retirement_that_was_stopped_leaves_no_gap_and_goes_on(operated: Operated) -> None:
    acme = operated.organization("acme", 60)
    with pytest.raises(Stopped):
        retire(operated.stage, "acme", None, stopped_after(operated.client, "BatchWriteItem", 1), yes)
    assert chain_of(operated.client, operated.stage.log_table, acme, 0) == Chain(26, 61)
    assert isinstance(operated.follow(acme, 0), Torn)
    assert retire(operated.stage, "acme", None, operated.client, yes)
    assert operated.sessions(acme) == [61]


@pytest.mark.parametrize("kept", [1, 4, 10, 12], ids=lambda kept: f"before the commit {kept}")
def test_only_what_is_older_goes_if_a_time_is_given(operated: Operated, kept: int) -> None:
    acme = operated.organization("acme", COMMITS)
    _observe(operated, acme)
    operated.project(acme)
    first = operated.parts.log.commit(acme, kept)
    assert first is not None
    assert session_at(operated.parts.log, operated.parts.log.head(acme), first.at - 1).session == kept - 1
    assert retire(operated.stage, "acme", first.at, operated.client, yes)
    assert operated.sessions(acme) == list(range(kept, COMMITS + 1))
    found = [f"/acme/{number}" for number in range(kept - 1, COMMITS) for _ in range(1 + number % 3)]
    assert operated.keys(acme) == operated.keys(acme, "job") == found
    assert list(operated.parts.observers.of(acme).observers) == ["ops"]


def test_the_last_commit_stays_however_old_it_is(operated: Operated) -> None:
    acme = operated.organization("acme", 3)
    retire(operated.stage, "acme", 2**52, operated.client, yes)
    assert operated.sessions(acme) == [3]
    assert operated.publish(acme, "/again") == 4


def test_nothing_is_deleted_unless_that_is_wanted(operated: Operated, capsys: pytest.CaptureFixture[str]) -> None:
    acme = operated.organization("acme", 4)
    _observe(operated, acme)
    before = operated.commits()
    assert not retire(operated.stage, "acme", None, operated.client, no)
    assert operated.commits() == before
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:5] for line in shown] == [
        ["acme", "4", "commits", "with", "7"],
        ["acme", "(inbox)", "1", "commits", "with"],
    ]


def test_an_organization_that_never_published_can_be_retired_too(operated: Operated) -> None:
    acme = operated.organization("acme", 0)
    assert retire(operated.stage, "acme", None, operated.client, yes)
    assert (operated.sessions(acme), operated.publish(acme, "/first")) == ([], 1)


@pytest.mark.parametrize("server", [DIRECTORY, configuration_of(1)], ids=["the directory", "a configuration"])
def test_what_says_how_things_are_configured_cannot_be_retired(operated: Operated, server: int) -> None:
    operated.organization("acme", 1)
    before = operated.commits()
    retiring = Retiring(operated.parts, operated.client, operated.stage.log_table)
    with pytest.raises(BadInput, match="kept for ever"):
        retiring.holding(server)
    with pytest.raises(BadInput, match="kept for ever"):
        retiring.delete(server, lambda _: None)
    with pytest.raises(NoSuchOrganization):
        retire(operated.stage, "(organizations)", None, operated.client, yes)
    assert operated.commits() == before


@pytest.fixture(name="deployed")
def a_deployed_stage(ministack: str, operated: Operated) -> Iterator[Operated]:
    """A stack with all that the commands look for."""
    cloudformation = deployment.aws_client(ministack, "cloudformation")
    cloudformation.create_stack(StackName="annals-prod", TemplateBody=a_small_template())
    deployment.eventually(lambda: _status(cloudformation), lambda status: status == "CREATE_COMPLETE")
    yield Operated(Stage.deployed("prod"), operated.client)
    cloudformation.delete_stack(StackName="annals-prod")
    cloudformation.close()


def test_the_commands_find_the_stage_by_its_stack(ministack: str, deployed: Operated) -> None:
    acme = deployed.organization("acme", 5)
    table = deployed.backed_up()
    deployed.lose(acme, [2, 3])
    said = _said(ministack, "restore", "--to", "2026-11-16T10:00:00Z", "--yes")
    assert "There before: 4; put back: 2; past retention: 0." in said
    assert "acme                           sessions 1 to 5 without gap" in said
    assert f"aws dynamodb delete-table --table-name {table}" in said
    assert f"{'acme':20} views rebuilt" in _said(ministack, "rebuild")
    assert "Nothing was deleted." in _said(ministack, "retire", "--org", "acme", code=1)
    assert "acme is retired.\n1 functions begin anew." in _said(ministack, "retire", "--org", "acme", "--yes")
    assert deployed.sessions(acme) == [6]


def test_a_stage_that_is_not_there_is_told(operated: Operated) -> None:
    del operated
    with pytest.raises(NotDeployed, match="there is no stack annals-dev"):
        Stage.deployed("dev")


def _observe(operated: Operated, server: int) -> None:
    """Have an observer, and what it leaves behind: a message, a delivery, a parked delivery."""
    parts = operated.parts
    parts.observers.put(server, "ops", Configuration(channel="app", config={"to": "anna"}))
    parts.inbox.put(AppMessage(f"{server}", server, "anna", "ops", "subject", "body", Id(server, 1, 1)))
    outbox: Any = parts.outbox
    sent, parked = Queued(a_delivery(1, server=server)), Queued(a_delivery(2, server=server))
    outbox.done(sent, "sent", Standing())
    outbox.park(parked, Parked(parked.delivery, 5, "no such host", 0), Standing())


def _of(operated: Operated, server: int) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Everything that there is of an organization."""
    logs = {*both_logs(server), configuration_of(server)}
    views = {
        place: record
        for place, record in operated.views().items()
        if re.match(rf"({'|'.join(map(str, logs))})[./]", place[0])
    }
    return {place: item for place, item in operated.commits().items() if place[0] in logs}, views


def _generations(operated: Operated) -> set[tuple[str, Any]]:
    """The records of all views, each with the generation it is of."""
    found = (
        (re.fullmatch(rf"(-?\d+)\.{FORMAT}\.(\d+)/(.*)", view), item, record)
        for (view, item), record in operated.views().items()
    )
    return {(match[2], (match[1], match[3], item, record)) for match, item, record in found if match is not None}


def _status(cloudformation: Any) -> str:
    status: str = cloudformation.describe_stacks(StackName="annals-prod")["Stacks"][0]["StackStatus"]
    return status


def _said(endpoint: str, command: str, *arguments: str, code: int = 0) -> str:
    """What a command says, in a process of its own with nobody to answer."""
    credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
    process = deployment.command(command, "--stage", "prod", *arguments, AWS_ENDPOINT_URL=endpoint, **credentials)
    said, _ = process.communicate(timeout=deployment.DEPLOY_S)
    assert process.returncode == code, said
    return said
