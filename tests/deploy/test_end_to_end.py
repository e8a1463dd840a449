"""All of Annals as it is deployed: API Gateway, Lambdas, DynamoDB with its stream, queues, SES, schedules.

`make cloud` deploys the package and the template of `make deploy` to an endpoint that speaks like AWS; each function
runs in processes of its own. Nothing of the product runs in the process of the tests. One file, so one deployment.
"""

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from httpx_sse import EventSource, ServerSentEvent

from tests.deploy.deployment import Deployment, Json, Member, deployed, eventually

EVENTS = Path(__file__).parents[1] / "events"
WRITERS = 8
REQUESTS = 5
"""Of each writer, one after the other."""
TOO_LARGE = {"type": ["a"], "payload": {"type": "json", "data": random.Random(1).randbytes(200_000).hex()}}
SOON_S = 10.0
"""Much less than what a poll would wait, and enough for a machine with a lot to do."""


@pytest.fixture(scope="module", name="deployment")
def a_deployment() -> Iterator[Deployment]:
    with deployed() as running:
        yield running


@pytest.fixture(name="member")
def a_member(deployment: Deployment) -> Member:
    """Each test has an organization of its own."""
    return deployment.organization()


@pytest.fixture(name="threads")
def some_threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(WRITERS) as threads:
        yield threads


def job(event: str, number: int, /, **more: object) -> Json:
    """An event in AnyJob's JSON."""
    return {"event": event, "id": number, "node": "n1", "type": "backup", **more}


def payload(name: str) -> Json:
    """A stored Lambda event."""
    found: Json = json.loads((EVENTS / f"{name}.json").read_text())
    return found


def subtypes(events: Sequence[Json]) -> list[str]:
    """The last subtype of each event."""
    return [event["type"][-1] for event in events]


def ids(events: Sequence[Json]) -> list[int]:
    """The eventId of each."""
    return [event["eventId"] for event in events]


# Publishing.


def test_what_is_published_over_http_is_numbered_and_in_the_log(member: Member) -> None:
    first, second = member.publish("a/1", "a/2"), member.publish("a/3")
    server = member.server
    assert [event["id"] for event in [*first, *second]] == [
        {"server": server, "session": session, "instance": instance} for session, instance in ((1, 1), (1, 2), (2, 1))
    ]
    assert first[1]["eventId"] == first[0]["eventId"] + 1
    assert member.log() == [*first, *second]


def test_a_function_that_is_invoked_publishes_and_answers_as_the_api_does(
    deployment: Deployment, member: Member
) -> None:
    answer = deployment.invoke("Publish", {"org": member.organization, "events": [{"type": ["by", "invoke"]}]})
    assert member.log() == answer["events"]
    assert answer["eventId"] == answer["events"][-1]["eventId"]


def test_a_function_that_refuses_fails_and_writes_nothing(deployment: Deployment, member: Member) -> None:
    assert "errorMessage" in deployment.invoke("Publish", {"org": member.organization, "events": [{"type": ["*"]}]})
    assert member.commits() == []


def test_what_is_sent_to_the_queue_is_appended_in_order_several_messages_in_a_commit(
    deployment: Deployment, member: Member
) -> None:
    numbers = [str(n) for n in range(20)]
    for some in (numbers[:10], numbers[10:]):
        deployment.aws("sqs").send_message_batch(
            QueueUrl=deployment.outputs["IngestQueueUrl"],
            Entries=[
                {
                    "Id": number,
                    "MessageBody": json.dumps({"events": [{"type": ["queued", number]}]}),
                    "MessageGroupId": member.organization,
                    "MessageDeduplicationId": f"{member.organization}-{number}",
                }
                for number in some
            ],
        )
    log = eventually(member.log, lambda events: len(events) >= len(numbers))
    assert subtypes(log) == numbers
    assert len(member.commits()) < len(numbers)


def test_a_repeat_with_the_same_key_gets_the_first_answer_and_writes_nothing(member: Member) -> None:
    once, other = ({"events": [{"type": ["once", name]}]} for name in ("a", "b"))
    key = {"Idempotency-Key": "the-same"}
    answers = [member.ask("POST", "/events", json=body, headers=key) for body in (once, once, other)]
    assert [answer.status_code for answer in answers] == [201, 200, 422]
    assert [answer.headers.get("Idempotent-Replayed") for answer in answers] == [None, "true", None]
    assert answers[0].json() == answers[1].json()
    assert member.log() == answers[0].json()["events"]


def test_an_append_whose_condition_fails_writes_nothing(member: Member) -> None:
    (event,) = member.publish("stock/taken")
    condition = {"failIfEventsMatch": {"types": ["stock/*"]}, "after": 0}
    refused = member.ask("POST", "/events", json={"events": [{"type": ["stock", "taken"]}], "condition": condition})
    assert (refused.status_code, refused.json()["eventId"]) == (409, event["eventId"])
    condition["after"] = event["eventId"]
    granted = member.ask("POST", "/events", json={"events": [{"type": ["stock", "back"]}], "condition": condition})
    assert granted.status_code == 201
    assert subtypes(member.log()) == ["taken", "back"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"events": [', 400),
        (b'{"events": [{"type": ["a"], "colour": "red"}]}', 400),
        (b'{"events": [{"type": ["*"]}]}', 400),
        (json.dumps({"events": [{"type": ["a"]}] * 1_001}).encode(), 413),
        (json.dumps({"events": [TOO_LARGE]}).encode(), 413),
    ],
    ids=["no JSON", "an unknown field", "a wildcard", "too many", "too large"],
)
def test_a_bad_request_is_told_as_a_problem_and_writes_nothing(member: Member, body: bytes, status: int) -> None:
    answer = member.ask("POST", "/events", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["status"]) == (status, status), answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert member.commits() == []


def test_eight_writers_at_once_number_one_log_without_gaps(deployment: Deployment, threads: ThreadPoolExecutor) -> None:
    """Lambdas that share nothing but the table: four write for the API, four for who invokes `publish`.

    All begin at the same moment, and a process of Lambda does one thing at a time, so there are several processes of
    both functions, which is checked. Each remembers where the log ended when it wrote last, and mostly that is wrong:
    the table refuses them, and they look again. No number is given twice, none is left out, no answer is a lie.
    """
    member = deployment.organization()
    together = threading.Barrier(WRITERS)

    def by_http(events: list[Json]) -> list[Json]:
        return member.post(*events)

    def by_invoking(events: list[Json]) -> list[Json]:
        answer = deployment.invoke("Publish", {"org": member.organization, "events": events})
        found: list[Json] = answer["events"]
        return found

    def write(writer: int) -> list[list[Json]]:
        publish = (by_http, by_invoking)[writer % 2]
        together.wait()
        return [publish([_numbered(writer, request, n) for n in range(3)]) for request in range(REQUESTS)]

    answers = [answer for found in threads.map(write, range(WRITERS)) for answer in found]
    log, commits = member.log(), member.commits()
    assert (deployment.workers("APIHandler") > 1, deployment.workers("Publish") > 1) == (True, True)
    assert [commit["session"] for commit in commits] == list(range(1, WRITERS * REQUESTS + 1))
    assert [commit["prev"] for commit in commits] == [0, *(commit["at"] + commit["n"] - 1 for commit in commits[:-1])]
    assert ids(log) == sorted(set(ids(log)))
    assert ids(log) == [commit["at"] + n for commit in commits for n in range(commit["n"])]
    assert sorted((event for answer in answers for event in answer), key=lambda one: int(one["eventId"])) == log
    assert len({tuple(event["type"]) for event in log}) == WRITERS * REQUESTS * 3


def _numbered(writer: int, request: int, n: int) -> Json:
    return {"type": ["written", str(writer), str(request), str(n)], "key": f"/writer/{writer}"}


# Who may come in.


@pytest.mark.parametrize(
    "shown",
    [
        lambda _: "",
        lambda member: f"Bearer {member.signed('somebody else holds this key, not us')}",
        lambda member: f"Bearer {member.signed(member.deployment.environment['JWT_KEY'], expires_s=-60)}",
    ],
    ids=["none", "signed by somebody else", "expired"],
)
def test_without_a_good_token_nobody_comes_in(member: Member, shown: Callable[[Member], str]) -> None:
    answer = member.ask("POST", "/events", json={"events": [{"type": ["a"]}]}, headers={"Authorization": shown(member)})
    assert answer.status_code == 401
    assert member.commits() == []


def test_without_any_header_nobody_comes_in_but_to_ask_how_it_is(deployment: Deployment) -> None:
    assert [deployment.client.get(path).status_code for path in ("/events", "/observers", "/health")] == [401, 401, 200]


def test_whoever_is_of_another_organization_or_lacks_the_group_is_refused(
    deployment: Deployment, member: Member
) -> None:
    ours = {"X-Organization": member.organization}
    foreign, reading, writing = (
        deployment.member("elsewhere"),
        deployment.member(member.organization, groups=["readers"]),
        deployment.member(member.organization, groups=["publishers"]),
    )
    body = {"events": [{"type": ["a"]}]}
    answers = [
        foreign.ask("POST", "/events", json=body, headers=ours),
        foreign.ask("GET", "/events", headers=ours),
        reading.ask("POST", "/events", json=body),
        writing.ask("GET", "/events"),
        reading.ask("PUT", f"/organizations/{member.organization}"),
    ]
    assert [answer.status_code for answer in answers] == [403] * 5
    assert {answer.headers["Content-Type"] for answer in answers} == {"application/problem+json"}
    assert member.commits() == []


# Feeds.


def test_a_poll_waits_and_is_woken_by_what_it_waits_for(member: Member, threads: ThreadPoolExecutor) -> None:
    """It waits in one Lambda, others publish; what does not match does not end it."""
    (first,) = member.publish("first")
    member.get("/events", after=0)
    polled = threads.submit(member.get, "/events", types="wanted", after=first["eventId"], timeout="25s")
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        member.publish("noise")
    assert not polled.done()
    (wanted,) = member.publish("wanted")
    assert polled.result(SOON_S) == {"TYPE": "NonEmpty", "eventId": wanted["eventId"], "eventSnapshots": [wanted]}


def test_a_poll_that_nothing_wakes_ends_in_time_and_says_how_far_it_looked(member: Member) -> None:
    (last,) = member.publish("noise")
    began = time.monotonic()
    answer = member.get("/events", types="wanted", after=0, timeout="1s")
    assert 1.0 <= time.monotonic() - began < SOON_S
    assert answer == {"TYPE": "Empty", "eventId": last["eventId"], "lastEventId": last["eventId"]}


def test_an_event_source_that_comes_back_gets_every_event_once_in_order(
    member: Member, threads: ThreadPoolExecutor
) -> None:
    """Behind API Gateway a stream is a page: it ends, says when to come back, and the client does, with its last id."""
    published = threads.submit(lambda: [event for n in range(12) for event in member.publish(f"told/{n}")])
    pages, seen = 0, list[ServerSentEvent]()
    while not (published.done() and len(seen) >= len(published.result())):
        seen += _page(member, seen[-1].id if seen else "0")
        pages += 1
        assert len(seen) <= 12
    assert pages > 1
    assert [json.loads(event.data) for event in seen] == published.result() == member.log()
    assert [event.id for event in seen] == [str(number) for number in ids(member.log())]


def _page(member: Member, last: str) -> list[ServerSentEvent]:
    """What an EventSource gets that comes back with this id, and is told when to come again."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": last}
    answer = member.ask("GET", "/events", params={"types": "told/*", "timeout": "5s"}, headers=headers)
    assert re.search(r"^retry: \d+$", answer.text, re.MULTILINE)
    return list(EventSource(answer).iter_sse())


def test_what_follows_a_snapshot_of_jobs_misses_and_repeats_nothing(
    member: Member, threads: ThreadPoolExecutor
) -> None:
    def publish(n: int) -> None:
        member.post(job("create", n), vocabulary="job")
        member.post(job("finish", n, success="1", message="well"), vocabulary="job")

    snapshot, followed = _followed(member, threads, publish, "/objects/job", "/events")
    log = member.log()
    before = [event for event in log if event["eventId"] <= snapshot["eventId"]]
    created, finished = ({e["key"] for e in before if e["type"][1] == name} for name in ("create", "finish"))
    found = {f"/job/{one['id']}": "finishedAt" in one for one in snapshot["elements"]}
    assert found == {key: key in finished for key in created}
    assert followed == log[len(before) :]


def test_what_follows_a_snapshot_of_orders_misses_and_repeats_nothing(
    member: Member, threads: ThreadPoolExecutor
) -> None:
    def publish(n: int) -> None:
        member.post({"TYPE": "OrderAdded", "key": f"/chain,{n}", "nodeId": "100"}, vocabulary="scheduler")
        started = {"TYPE": "OrderStepStarted", "key": f"/chain,{n}", "nodeId": "100", "taskId": str(n)}
        member.post(started, vocabulary="scheduler")

    path = "/jobscheduler/master/api/order/"
    overview, events = f"{path}?return=OrderOverview", f"{path}?return=OrderEvent"
    snapshot, followed = _followed(member, threads, publish, overview, events)
    log = member.log()
    before = [event for event in log if event["eventId"] <= snapshot["eventId"]]
    added, started = ({e["key"] for e in before if e["type"][2] == name} for name in ("OrderAdded", "OrderStepStarted"))
    found = {one["path"]: one["orderProcessingState"]["TYPE"] == "InTaskProcess" for one in snapshot["orders"]}
    assert found == {key: key in started for key in added}
    assert ids(followed) == ids(log[len(before) :])
    assert [(one["TYPE"], one["key"]) for one in followed] == [(e["type"][2], e["key"]) for e in log[len(before) :]]


def _followed(
    member: Member, threads: ThreadPoolExecutor, publish: Callable[[int], None], snapshot: str, events: str
) -> tuple[Json, list[Json]]:
    """A snapshot that was made while somebody publishes, and what came after it, poll by poll."""
    begun = threading.Event()

    def publish_all() -> None:
        for n in range(12):
            publish(n)
            begun.set()

    published = threads.submit(publish_all)
    assert begun.wait(SOON_S)
    found = member.get(snapshot)
    assert not published.done()
    followed: list[Json] = []
    after = found["eventId"]
    while not (published.done() and after >= member.log()[-1]["eventId"]):
        page = _polled(member, events, after)
        followed += page.get("eventSnapshots", [])
        after = page.get("lastEventId", page["eventId"])
    published.result()
    return found, followed


def _polled(member: Member, path: str, after: int) -> Json:
    url = httpx.URL(path).copy_merge_params({"after": after, "timeout": "2s"})
    answer = member.ask("GET", str(url))
    found: Json = answer.json()
    return found


# Views.


def test_the_stream_brings_views_up_to_date_and_answers_stay_the_same(member: Member) -> None:
    member.post(job("create", 1), job("create", 2), vocabulary="job")
    member.post(job("progress", 1, state="half"), vocabulary="job")
    member.post(job("finish", 2, success="1", message="well"), vocabulary="job")
    paths = ("/objects/job", "/objects/job/1", "/jobs/2")
    early = [member.get(path) for path in paths]
    head = member.commits()[-1]["session"]
    eventually(lambda: member.checkpoint("project"), lambda session: session == head)
    late = [member.get(path) for path in paths]
    assert late == early
    assert [(one["id"], one["state"]) for one in late[0]["elements"]] == [(1, "half"), (2, "finished")]
    assert late[1]["state"] == "half"


# Observers.


def test_an_observer_tells_by_mail_and_in_the_app_each_event_once_in_order(
    deployment: Deployment, member: Member
) -> None:
    """The log's stream wakes `observe`, it fills the outbox's queue, that brings `deliver`, and SES has the mail."""
    recipient = f"{member.organization}@example.org"
    member.put("/observers/mails", {"channel": "mail", "types": ["job/*"], "config": {"to": recipient}})
    member.put("/observers/tells", {"channel": "app", "types": ["job/*"], "config": {"to": "anna"}})
    member.post(job("create", 117), vocabulary="job")
    member.post(job("finish", 117, success="1", message="well"), vocabulary="job")
    mails = eventually(lambda: deployment.mails(recipient), lambda sent: len(sent) >= 2)
    assert [(mail["Source"], mail["To"], mail["Subject"]) for mail in mails] == [
        ("annals@example.org", [recipient], subject) for subject in ("Job created", "Job finished")
    ]
    assert all("backup" in mail["BodyText"] and "117" in mail["BodyText"] for mail in mails)
    assert "<html" in mails[0]["BodyHtml"]
    eventually(lambda: _told(member), lambda told: len(told) >= 2)
    assert _told(member) == [
        ("tells", "Job created", member.log()[0]["id"]),
        ("tells", "Job finished", member.log()[1]["id"]),
    ]
    counts = eventually(lambda: _deliveries(member, "mails", "tells"), lambda found: found["sent"] >= 4)
    assert (counts["sent"], counts["parked"], counts["dropped"]) == (4, 0, 0)
    assert len(deployment.mails(recipient)) == 2


def test_what_ses_refuses_is_parked_with_its_error_and_goes_out_when_it_is_retried(
    deployment: Deployment, member: Member
) -> None:
    sender, recipient = f"{member.organization}@sender.example", f"{member.organization}@example.org"
    config = {"to": recipient, "from": sender}
    member.put("/observers/broken", {"channel": "mail", "types": ["job/*"], "config": config})
    (event,) = member.post(job("create", 1), vocabulary="job")
    (failure,) = eventually(lambda: member.get("/observers/broken/failures")["failures"])
    assert (failure["event"], failure["address"], failure["tries"]) == (event["id"], recipient, 1)
    assert "SES refuses the mail: MessageRejected" in failure["error"]
    assert sender in failure["error"]
    deployment.aws("sesv2").create_email_identity(EmailIdentity=sender)
    assert member.ask("POST", "/observers/broken/retry", json={"ids": [failure["id"]]}).json() == {"retried": 1}
    (mail,) = eventually(lambda: deployment.mails(recipient))
    assert (mail["Source"], mail["Subject"]) == (sender, "Job created")
    counts = eventually(lambda: _deliveries(member, "broken"), lambda found: found["sent"] == 1)
    assert (counts["parked"], member.get("/observers/broken/failures")["failures"]) == (0, [])


def _told(member: Member) -> list[tuple[str, str, Json]]:
    found = member.get("/users/anna/inbox", after=0).get("eventSnapshots", [])
    return [(one["observer"], one["subject"], one["event"]) for one in found]


def _deliveries(member: Member, *observers: str) -> Counter[str]:
    """What became of the deliveries of observers."""
    found = Counter[str]()
    for name in observers:
        found.update(member.get(f"/observers/{name}")["deliveries"])
    return found


# Schedules, exports, reports.


def test_schedules_wake_their_functions_and_nobody_else_may(deployment: Deployment) -> None:
    """The export's is off: there is no Glue here that could load it."""
    assert [_schedule(deployment, name) for name in ("Clean", "Export")] == [
        ("ENABLED", "rate(1 minute)"),
        ("DISABLED", "rate(1 day)"),
    ]


def _schedule(deployment: Deployment, function: str) -> tuple[str, str]:
    """The state and the rate of a schedule whose target is the function, and may be."""
    events, name = deployment.aws("events"), deployment.resources[f"{function}Rule"]
    rule = events.describe_rule(Name=name)
    (target,) = events.list_targets_by_rule(Rule=name)["Targets"]
    assert target["Arn"].endswith(f":function:{deployment.resources[function]}")
    ((principal, source),) = _callers(deployment, function)
    assert (principal, source) == ("events.amazonaws.com", rule["Arn"])
    return rule["State"], rule["ScheduleExpression"]


def _callers(deployment: Deployment, function: str) -> list[tuple[str, str]]:
    """Who may call a function, and on behalf of what."""
    policy = deployment.aws("lambda").get_policy(FunctionName=deployment.resources[function])["Policy"]
    return [
        (one["Principal"]["Service"], one["Condition"]["ArnLike"]["AWS:SourceArn"])
        for one in json.loads(policy)["Statement"]
    ]


def test_a_job_that_was_silent_too_long_is_cleaned_once(deployment: Deployment, member: Member) -> None:
    member.post(job("create", 1, props={"clean_timeout": "0"}), job("create", 2), vocabulary="job")
    event = payload("scheduled_event")

    def cleaned() -> list[Json]:
        assert deployment.invoke("Clean", event) is None
        return [one for one in member.log() if one["type"][1] == "clean"]

    (clean,) = eventually(cleaned)
    assert clean["key"] == "/job/1"
    assert cleaned() == [clean]
    assert [("finishedAt" in member.get(f"/jobs/{number}")) for number in (1, 2)] == [True, False]


def test_an_export_is_started_and_what_arrives_in_the_bucket_is_loaded(deployment: Deployment) -> None:
    """The endpoint exports no files, so the manifest is put there by the test; the job that loads it does nothing."""
    assert deployment.invoke("Export", payload("scheduled_event")) is None
    table = deployment.environment["LOG_TABLE_ARN"]
    (started,) = deployment.aws("dynamodb").list_exports(TableArn=table)["ExportSummaries"]
    (planned,) = _ledger(deployment)
    assert (planned["state"], planned["kind"], planned["arn"]) == ("started", "FULL_EXPORT", started["ExportArn"])
    name = deployment.environment["HISTORY_JOB"]
    deployment.aws("glue").create_job(Name=name, Role="glue", Command={"Name": "glueetl"})
    export = started["ExportArn"].rpartition("/")[2]
    deployment.aws("s3").put_object(
        Bucket=deployment.outputs["ExportBucketName"],
        Key=f"exports/AWSDynamoDB/{export}/manifest-summary.json",
        Body=b"{}",
    )
    (loaded,) = eventually(lambda: _ledger(deployment), lambda found: found[0]["state"] == "loaded")
    assert loaded["run"] in [run["Id"] for run in deployment.aws("glue").get_job_runs(JobName=name)["JobRuns"]]


def _ledger(deployment: Deployment) -> list[Json]:
    found = deployment.aws("dynamodb").query(
        TableName=deployment.outputs["ViewsTableName"],
        KeyConditionExpression="#view = :view",
        ExpressionAttributeNames={"#view": "view"},
        ExpressionAttributeValues={":view": {"S": "exports"}},
    )
    return [json.loads(item["data"]["S"]) for item in found["Items"]]


def test_a_finished_report_is_an_event_of_every_organization(deployment: Deployment, member: Member) -> None:
    event = payload("glue_job_state_change")
    event["detail"]["jobName"] = deployment.environment["REPORTS_JOB"]
    for _ in range(2):
        assert deployment.invoke("Reported", event) is None
    assert [one["type"] for one in member.log()] == [["report", "ready", "report"]]


# What the template says, as the endpoint understood it.


def test_questions_go_to_the_reader_and_the_rest_to_the_writer(deployment: Deployment) -> None:
    gateway, api = deployment.aws("apigateway"), deployment.resources["RestAPI"]
    reader, writer = deployment.resources["Reader"], deployment.resources["APIHandler"]
    behind = {
        (method, resource["path"]): found["methodIntegration"]["uri"].split(":function:")[1].split("/")[0]
        for resource in gateway.get_resources(restApiId=api, limit=500)["items"]
        for method, found in resource.get("resourceMethods", {}).items()
    }
    assert {function for (method, _), function in behind.items() if method == "GET"} == {reader}
    assert {function for (method, _), function in behind.items() if method in ("PUT", "DELETE")} == {writer}
    asked = {path for (method, path), function in behind.items() if method == "POST" and function == reader}
    queries = {"/events/latest", "/events/timeseries", "/events/server", "/jobscheduler/master/api/{collection}"}
    assert asked == queries
    assert behind["POST", "/events"] == behind["POST", "/events/{vocabulary}"] == writer
    for function in ("Reader", "APIHandler"):
        assert [principal for principal, _ in _callers(deployment, function)] == ["apigateway.amazonaws.com"]


def test_the_stream_and_the_queues_wake_their_functions(deployment: Deployment) -> None:
    functions = {deployment.resources[name]: name for name in ("Project", "Observe", "Deliver", "Ingest")}
    found = {
        functions[one["FunctionArn"].rpartition(":")[2]]: (one["EventSourceArn"].split(":")[2], one["State"])
        for one in deployment.aws("lambda").list_event_source_mappings()["EventSourceMappings"]
    }
    assert found == {
        "Project": ("dynamodb", "Enabled"),
        "Observe": ("dynamodb", "Enabled"),
        "Deliver": ("sqs", "Enabled"),
        "Ingest": ("sqs", "Enabled"),
    }


def test_nothing_was_given_up(deployment: Deployment) -> None:
    """After all that the tests above did, no message and no record of the stream is where the hopeless ones go."""
    queues = deployment.aws("sqs")
    for name in ("DeadLetterQueue", "IngestDeadLetterQueue", "StreamFailureQueue"):
        found = queues.get_queue_attributes(QueueUrl=deployment.resources[name], AttributeNames=["All"])
        assert found["Attributes"]["ApproximateNumberOfMessages"] == "0", name


def test_a_signal_ends_it_and_all_that_it_started(deployment: Deployment) -> None:
    """The last test: there is nothing left to ask afterwards."""
    assert deployment.stop()
