"""Annals as deployed: API Gateway, Lambdas, DynamoDB with its stream, queues, SES and schedules.

`make cloud` deploys the package and template of `make deploy` to an emulator. Each function runs in separate processes,
and none of it in the test process. All tests are in one file to share one deployment.
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

from tests.deploy.deployment import Deployment, Json, Member, eventually, run_deployment

EVENTS = Path(__file__).parents[1] / "events"
WRITERS = 8
REQUESTS = 5
"""Requests of each writer, in sequence."""
TOO_LARGE = {"type": ["a"], "payload": {"type": "json", "data": random.Random(1).randbytes(200_000).hex()}}
SOON_S = 10.0
"""Well below a poll's timeout, but enough for a loaded machine."""


@pytest.fixture(scope="module", name="deployment")
def shared_deployment() -> Iterator[Deployment]:
    with run_deployment() as running:
        yield running


@pytest.fixture(name="member")
def new_member(deployment: Deployment) -> Member:
    """A member of a new organization for each test."""
    return deployment.organization()


@pytest.fixture(name="threads")
def thread_pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(WRITERS) as threads:
        yield threads


PROBLEM = "application/problem+json"


def job(event: str, number: int, /, **more: object) -> Json:
    return {"event": event, "id": number, "node": "n1", "type": "backup", **more}


def payload(name: str) -> Json:
    event: Json = json.loads((EVENTS / f"{name}.json").read_text())
    return event


def subtypes(events: Sequence[Json]) -> list[str]:
    return [event["type"][-1] for event in events]


def ids(events: Sequence[Json]) -> list[int]:
    return [event["eventId"] for event in events]


# Publishing.


def test_publish_over_http_numbers_and_logs_events(member: Member) -> None:
    first, second = member.publish("a/1", "a/2"), member.publish("a/3")
    server = member.server
    assert [event["id"] for event in [*first, *second]] == [
        {"server": server, "session": session, "instance": instance} for session, instance in ((1, 1), (1, 2), (2, 1))
    ]
    assert first[1]["eventId"] == first[0]["eventId"] + 1
    assert member.log() == [*first, *second]


def test_publish_by_invocation_answers_like_api(deployment: Deployment, member: Member) -> None:
    answer = deployment.invoke("Publish", {"org": member.organization, "events": [{"type": ["by", "invoke"]}]})
    assert member.log() == answer["events"]
    assert answer["eventId"] == answer["events"][-1]["eventId"]


def test_publish_by_invocation_invalid_event_fails(deployment: Deployment, member: Member) -> None:
    assert "errorMessage" in deployment.invoke("Publish", {"org": member.organization, "events": [{"type": ["*"]}]})
    assert member.commits() == []


def test_ingest_queue_appends_in_order_and_batches(deployment: Deployment, member: Member) -> None:
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


def test_refused_ingest_message_is_dead_letter_with_reason(deployment: Deployment, member: Member) -> None:
    queues = deployment.aws("sqs")
    bodies = [json.dumps({"events": [{"type": [name]}]}) for name in ("bad/type", "good")]
    queues.send_message_batch(
        QueueUrl=deployment.outputs["IngestQueueUrl"],
        Entries=[
            {
                "Id": str(number),
                "MessageBody": body,
                "MessageGroupId": member.organization,
                "MessageDeduplicationId": f"{member.organization}-{number}",
            }
            for number, body in enumerate(bodies)
        ],
    )
    assert subtypes(eventually(member.log)) == ["good"]
    dead_letters = deployment.resources["IngestDeadLetterQueue"]
    wanted = {"QueueUrl": dead_letters, "MessageAttributeNames": ["All"]}
    (message,) = eventually(lambda: queues.receive_message(**wanted).get("Messages", []))
    assert message["Body"] == bodies[0]
    assert message["MessageAttributes"]["reason"]["StringValue"].startswith("BadInput: events.0.type.0: ")
    queues.delete_message(QueueUrl=dead_letters, ReceiptHandle=message["ReceiptHandle"])


def test_publish_repeated_key_replays_first_response(member: Member) -> None:
    once, other = ({"events": [{"type": ["once", name]}]} for name in ("a", "b"))
    key = {"Idempotency-Key": "the-same"}
    answers = [member.request("POST", "/events", json=body, headers=key) for body in (once, once, other)]
    assert [answer.status_code for answer in answers] == [201, 200, 422]
    assert [answer.headers.get("Idempotent-Replayed") for answer in answers] == [None, "true", None]
    assert answers[0].json() == answers[1].json()
    assert member.log() == answers[0].json()["events"]


def test_publish_failed_condition_writes_nothing(member: Member) -> None:
    (event,) = member.publish("stock/taken")
    condition = {"failIfEventsMatch": {"types": ["stock/*"]}, "after": 0}
    refused = member.request("POST", "/events", json={"events": [{"type": ["stock", "taken"]}], "condition": condition})
    assert (refused.status_code, refused.json()["eventId"]) == (409, event["eventId"])
    condition["after"] = event["eventId"]
    accepted = member.request("POST", "/events", json={"events": [{"type": ["stock", "back"]}], "condition": condition})
    assert accepted.status_code == 201
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
    ids=["invalid JSON", "unknown field", "wildcard", "too many", "too large"],
)
def test_publish_bad_request_returns_problem(member: Member, body: bytes, status: int) -> None:
    answer = member.request("POST", "/events", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["status"]) == (status, status), answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert member.commits() == []


def test_publish_eight_concurrent_writers_leaves_no_gaps(deployment: Deployment, threads: ThreadPoolExecutor) -> None:
    """Concurrent Lambdas that share only the table: four behind the API, four invoked directly.

    All start at the same time. A Lambda process handles one request at a time, so both functions run in several
    processes, which is checked. Each process caches the head of the log, and mostly its cache is stale: the table
    refuses the write, and the process retries. No number is used twice, none is skipped, and every response is true.
    """
    member = deployment.organization()
    barrier = threading.Barrier(WRITERS)

    def by_http(events: list[Json]) -> list[Json]:
        return member.post(*events)

    def by_invocation(events: list[Json]) -> list[Json]:
        answer = deployment.invoke("Publish", {"org": member.organization, "events": events})
        results: list[Json] = answer["events"]
        return results

    def write(writer: int) -> list[list[Json]]:
        publish = (by_http, by_invocation)[writer % 2]
        barrier.wait()
        return [publish([_numbered(writer, request, n) for n in range(3)]) for request in range(REQUESTS)]

    answers = [answer for results in threads.map(write, range(WRITERS)) for answer in results]
    log, commits = member.log(), member.commits()
    assert (deployment.workers("APIHandler") > 1, deployment.workers("Publish") > 1) == (True, True)
    assert [commit["session"] for commit in commits] == list(range(1, WRITERS * REQUESTS + 1))
    assert [commit["prev"] for commit in commits] == [0, *(commit["at"] + commit["n"] - 1 for commit in commits[:-1])]
    assert ids(log) == sorted(set(ids(log)))
    assert ids(log) == [commit["at"] + n for commit in commits for n in range(commit["n"])]
    assert sorted((event for answer in answers for event in answer), key=lambda event: int(event["eventId"])) == log
    assert len({tuple(event["type"]) for event in log}) == WRITERS * REQUESTS * 3


def _numbered(writer: int, request: int, n: int) -> Json:
    return {"type": ["written", str(writer), str(request), str(n)], "key": f"/writer/{writer}"}


# Authorization.


@pytest.mark.parametrize(
    "authorization",
    [
        lambda _: "",
        lambda member: f"Bearer {member.sign_token('a key that the server does not have')}",
        lambda member: f"Bearer {member.sign_token(member.deployment.environment['JWT_KEY'], expires_s=-60)}",
    ],
    ids=["missing", "wrong key", "expired"],
)
def test_request_without_valid_token_is_refused(member: Member, authorization: Callable[[Member], str]) -> None:
    answer = member.request(
        "POST", "/events", json={"events": [{"type": ["a"]}]}, headers={"Authorization": authorization(member)}
    )
    assert answer.status_code == 401
    assert (answer.headers["Content-Type"], answer.headers["WWW-Authenticate"]) == (PROBLEM, "Bearer")
    assert answer.json()["detail"].startswith("send a header 'Authorization: Bearer <token>'")
    assert member.commits() == []


def test_request_without_header_only_reads_health(deployment: Deployment) -> None:
    assert [deployment.client.get(path).status_code for path in ("/events", "/observers", "/health")] == [401, 401, 200]


def test_request_of_other_organization_or_group_is_forbidden(deployment: Deployment, member: Member) -> None:
    headers = {"X-Organization": member.organization}
    stranger, reader, publisher = (
        deployment.member("elsewhere"),
        deployment.member(member.organization, groups=["readers"]),
        deployment.member(member.organization, groups=["publishers"]),
    )
    body = {"events": [{"type": ["a"]}]}
    answers = [
        stranger.request("POST", "/events", json=body, headers=headers),
        stranger.request("GET", "/events", headers=headers),
        reader.request("POST", "/events", json=body),
        publisher.request("GET", "/events"),
        reader.request("PUT", f"/organizations/{member.organization}"),
    ]
    assert [answer.status_code for answer in answers] == [403] * 5
    assert {answer.headers["Content-Type"] for answer in answers} == {"application/problem+json"}
    assert member.commits() == []


@pytest.mark.parametrize(("method", "path"), [("GET", "/nothing/here"), ("PATCH", "/events")])
def test_request_without_route_returns_problem(member: Member, method: str, path: str) -> None:
    answer = member.request(method, path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, PROBLEM)
    assert answer.json()["status"] == 404


# Feeds.


def test_poll_returns_when_matching_event_arrives(member: Member, threads: ThreadPoolExecutor) -> None:
    """The poll waits in one Lambda while others publish. Other events do not end it."""
    (first,) = member.publish("first")
    member.get("/events", after=0)
    poll = threads.submit(member.get, "/events", types="wanted", after=first["eventId"], timeout="25s")
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        member.publish("noise")
    assert not poll.done()
    (wanted,) = member.publish("wanted")
    assert poll.result(SOON_S) == {
        "TYPE": "NonEmpty",
        "eventId": wanted["eventId"],
        "moreFollows": False,
        "position": wanted["position"],
        "eventSnapshots": [wanted],
    }


def test_poll_without_events_times_out_with_position(member: Member) -> None:
    (last,) = member.publish("noise")
    started_s = time.monotonic()
    answer = member.get("/events", types="wanted", after=0, timeout="1s")
    assert 1.0 <= time.monotonic() - started_s < SOON_S
    position = {"eventId": last["eventId"], "lastEventId": last["eventId"], "position": last["position"]}
    assert answer == {"TYPE": "Empty", "moreFollows": False, **position}


def test_event_source_reconnects_without_loss(member: Member, threads: ThreadPoolExecutor) -> None:
    """Behind API Gateway a stream is a page: it ends, and the client reconnects with its last id."""
    published = threads.submit(lambda: [event for n in range(12) for event in member.publish(f"sent/{n}")])
    pages, seen = 0, list[ServerSentEvent]()
    while not (published.done() and len(seen) >= len(published.result())):
        seen += _event_source_page(member, seen[-1].id if seen else "0")
        pages += 1
        assert len(seen) <= 12
    assert pages > 1
    assert [json.loads(event.data) for event in seen] == published.result() == member.log()
    assert [event.id for event in seen] == [str(number) for number in ids(member.log())]


def _event_source_page(member: Member, last: str) -> list[ServerSentEvent]:
    """The events of one connection with this last id. The response has a retry interval."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": last}
    answer = member.request("GET", "/events", params={"types": "sent/*", "timeout": "5s"}, headers=headers)
    assert re.search(r"^retry: \d+$", answer.text, re.MULTILINE)
    return list(EventSource(answer).iter_sse())


def test_job_snapshot_and_feed_have_each_event_once(member: Member, threads: ThreadPoolExecutor) -> None:
    def publish(n: int) -> None:
        member.post(job("create", n), vocabulary="job")
        member.post(job("finish", n, success="1", message="well"), vocabulary="job")

    snapshot, followed = _snapshot_and_feed(member, threads, publish, "/objects/job", "/events")
    log = member.log()
    before = [event for event in log if event["eventId"] <= snapshot["eventId"]]
    created, finished = ({e["key"] for e in before if e["type"][1] == name} for name in ("create", "finish"))
    states = {f"/job/{element['id']}": "finishedAt" in element for element in snapshot["elements"]}
    assert states == {key: key in finished for key in created}
    assert followed == log[len(before) :]


def test_order_snapshot_and_feed_have_each_event_once(member: Member, threads: ThreadPoolExecutor) -> None:
    def publish(n: int) -> None:
        member.post({"TYPE": "OrderAdded", "key": f"/chain,{n}", "nodeId": "100"}, vocabulary="scheduler")
        started = {"TYPE": "OrderStepStarted", "key": f"/chain,{n}", "nodeId": "100", "taskId": str(n)}
        member.post(started, vocabulary="scheduler")

    path = "/jobscheduler/master/api/order/"
    overview, events = f"{path}?return=OrderOverview", f"{path}?return=OrderEvent"
    snapshot, followed = _snapshot_and_feed(member, threads, publish, overview, events)
    log = member.log()
    before = [event for event in log if event["eventId"] <= snapshot["eventId"]]
    added, started = ({e["key"] for e in before if e["type"][2] == name} for name in ("OrderAdded", "OrderStepStarted"))
    states = {order["path"]: order["orderProcessingState"]["TYPE"] == "InTaskProcess" for order in snapshot["orders"]}
    assert states == {key: key in started for key in added}
    assert ids(followed) == ids(log[len(before) :])
    assert [(order["TYPE"], order["key"]) for order in followed] == [
        (e["type"][2], e["key"]) for e in log[len(before) :]
    ]


def _snapshot_and_feed(
    member: Member, threads: ThreadPoolExecutor, publish: Callable[[int], None], snapshot: str, events: str
) -> tuple[Json, list[Json]]:
    """A snapshot taken while a thread publishes, and the events after it, poll by poll."""
    started = threading.Event()

    def publish_all() -> None:
        for n in range(12):
            publish(n)
            started.set()

    published = threads.submit(publish_all)
    assert started.wait(SOON_S)
    state = member.get(snapshot)
    assert not published.done()
    followed: list[Json] = []
    after = state["eventId"]
    while not (published.done() and after >= member.log()[-1]["eventId"]):
        page = _poll(member, events, after)
        followed += page.get("eventSnapshots", [])
        after = page.get("lastEventId", page["eventId"])
    published.result()
    return state, followed


def _poll(member: Member, path: str, after: int) -> Json:
    url = httpx.URL(path).copy_merge_params({"after": after, "timeout": "2s"})
    answer = member.request("GET", str(url))
    page: Json = answer.json()
    return page


# Views.


def test_projection_does_not_change_query_results(member: Member) -> None:
    member.post(job("create", 1), job("create", 2), vocabulary="job")
    member.post(job("progress", 1, state="half"), vocabulary="job")
    member.post(job("finish", 2, success="1", message="well"), vocabulary="job")
    paths = ("/objects/job", "/objects/job/1", "/jobs/2")
    early = [member.get(path) for path in paths]
    head = member.commits()[-1]["session"]
    eventually(lambda: member.checkpoint("project"), lambda session: session == head)
    late = [member.get(path) for path in paths]
    assert late == early
    assert [(job["id"], job["state"]) for job in late[0]["elements"]] == [(1, "half"), (2, "finished")]
    assert late[1]["state"] == "half"


# Observers.


def test_observers_deliver_mail_and_app_once_in_order(deployment: Deployment, member: Member) -> None:
    """The stream invokes `observe`, which fills the outbox. The outbox invokes `deliver`, which sends mail by SES."""
    recipient = f"{member.organization}@example.org"
    member.put("/observers/mails", {"channel": "mail", "types": ["job/*"], "config": {"to": recipient}})
    member.put("/observers/notifies", {"channel": "app", "types": ["job/*"], "config": {"to": "anna"}})
    member.post(job("create", 117), vocabulary="job")
    member.post(job("finish", 117, success="1", message="well"), vocabulary="job")
    mails = eventually(lambda: deployment.mails(recipient), lambda sent: len(sent) >= 2)
    assert [(mail["Source"], mail["To"], mail["Subject"]) for mail in mails] == [
        ("annals@example.org", [recipient], subject)
        for subject in ("Created backup on n1 (#117)", "Succeeded backup on n1 (#117): well")
    ]
    assert all("backup" in mail["BodyText"] and "117" in mail["BodyText"] for mail in mails)
    assert "<html" in mails[0]["BodyHtml"]
    eventually(lambda: _inbox(member), lambda messages: len(messages) >= 2)
    assert _inbox(member) == [
        ("notifies", "Created backup on n1 (#117)", member.log()[0]["id"]),
        ("notifies", "Succeeded backup on n1 (#117): well", member.log()[1]["id"]),
    ]
    counts = eventually(lambda: _deliveries(member, "mails", "notifies"), lambda deliveries: deliveries["sent"] >= 4)
    assert (counts["sent"], counts["parked"], counts["dropped"]) == (4, 0, 0)
    assert len(deployment.mails(recipient)) == 2


def test_delivery_refused_by_ses_is_parked_and_retried(deployment: Deployment, member: Member) -> None:
    sender, recipient = f"{member.organization}@sender.example", f"{member.organization}@example.org"
    config = {"to": recipient, "from": sender}
    member.put("/observers/broken", {"channel": "mail", "types": ["job/*"], "config": config})
    (event,) = member.post(job("create", 1), vocabulary="job")
    (failure,) = eventually(lambda: member.get("/observers/broken/failures")["failures"])
    assert (failure["event"], failure["address"], failure["tries"]) == (event["id"], recipient, 1)
    assert "SES rejected the mail: MessageRejected" in failure["error"]
    assert sender in failure["error"]
    deployment.aws("sesv2").create_email_identity(EmailIdentity=sender)
    assert member.request("POST", "/observers/broken/retry", json={"ids": [failure["id"]]}).json() == {"retried": 1}
    (mail,) = eventually(lambda: deployment.mails(recipient))
    assert (mail["Source"], mail["Subject"]) == (sender, "Created backup on n1 (#1)")
    counts = eventually(lambda: _deliveries(member, "broken"), lambda deliveries: deliveries["sent"] == 1)
    assert (counts["parked"], member.get("/observers/broken/failures")["failures"]) == (0, [])


def _inbox(member: Member) -> list[tuple[str, str, Json]]:
    messages = member.get("/users/anna/inbox", after=0).get("eventSnapshots", [])
    return [(message["observer"], message["subject"], message["event"]) for message in messages]


def _deliveries(member: Member, *observers: str) -> Counter[str]:
    """Delivery counts of observers."""
    counts = Counter[str]()
    for name in observers:
        counts.update(member.get(f"/observers/{name}")["deliveries"])
    return counts


# Schedules, exports, reports.


def test_schedules_may_invoke_their_functions(deployment: Deployment) -> None:
    """The export schedule is off, because there is no Glue to load exports."""
    assert [_schedule(deployment, name) for name in ("Clean", "Export")] == [
        ("ENABLED", "rate(1 minute)"),
        ("DISABLED", "rate(1 day)"),
    ]


def _schedule(deployment: Deployment, function: str) -> tuple[str, str]:
    """The state and rate of a function's schedule. Checks its target and permission."""
    events, name = deployment.aws("events"), deployment.resources[f"{function}Rule"]
    rule = events.describe_rule(Name=name)
    (target,) = events.list_targets_by_rule(Rule=name)["Targets"]
    assert target["Arn"].endswith(f":function:{deployment.resources[function]}")
    ((principal, source),) = _invokers(deployment, function)
    assert (principal, source) == ("events.amazonaws.com", rule["Arn"])
    return rule["State"], rule["ScheduleExpression"]


def _invokers(deployment: Deployment, function: str) -> list[tuple[str, str]]:
    """The principals that may invoke a function, and their sources."""
    policy = deployment.aws("lambda").get_policy(FunctionName=deployment.resources[function])["Policy"]
    return [
        (statement["Principal"]["Service"], statement["Condition"]["ArnLike"]["AWS:SourceArn"])
        for statement in json.loads(policy)["Statement"]
    ]


def test_clean_closes_timed_out_job_once(deployment: Deployment, member: Member) -> None:
    member.post(job("create", 1, props={"clean_timeout": "0"}), job("create", 2), vocabulary="job")
    event = payload("scheduled_event")

    def clean_events() -> list[Json]:
        assert deployment.invoke("Clean", event) is None
        return [entry for entry in member.log() if entry["type"][1] == "clean"]

    (clean,) = eventually(clean_events)
    assert clean["key"] == "/job/1"
    assert clean_events() == [clean]
    assert [("finishedAt" in member.get(f"/jobs/{number}")) for number in (1, 2)] == [True, False]


def test_export_is_started_and_loaded_on_arrival(deployment: Deployment, member: Member) -> None:
    """ministack exports no files, so the test writes the manifest. The job that loads it does nothing."""
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
    (loaded,) = eventually(lambda: _ledger(deployment), lambda exports: exports[0]["state"] == "loaded")
    names = deployment.aws("s3").get_object(
        Bucket=deployment.outputs["ExportBucketName"], Key="lake/_organizations.json"
    )
    with names["Body"] as body:
        assert json.loads(body.read())[str(member.server)] == member.organization
    assert loaded["run"] in [run["Id"] for run in deployment.aws("glue").get_job_runs(JobName=name)["JobRuns"]]


def _ledger(deployment: Deployment) -> list[Json]:
    response = deployment.aws("dynamodb").query(
        TableName=deployment.outputs["ViewsTableName"],
        KeyConditionExpression="#view = :view",
        ExpressionAttributeNames={"#view": "view"},
        ExpressionAttributeValues={":view": {"S": "exports"}},
    )
    return [json.loads(item["data"]["S"]) for item in response["Items"]]


def test_finished_report_is_published_to_organizations(deployment: Deployment, member: Member) -> None:
    event = payload("glue_job_state_change")
    event["detail"]["jobName"] = deployment.environment["REPORTS_JOB"]
    period = {"from": "2026-11-01", "to": "2026-11-16"}
    deployment.aws("s3").put_object(
        Bucket=deployment.outputs["ExportBucketName"],
        Key=f"lake/_new_pages/{event['detail']['jobRunId']}.json",
        Body=json.dumps({"pages": [{"server": member.server, "period": period}]}).encode(),
    )
    for _ in range(2):
        assert deployment.invoke("Reported", event) is None
    (ready,) = member.log()
    assert (ready["type"], ready["payload"]["data"]["period"]) == (["report", "ready", "report"], period)


# The template, as the emulator deployed it.


def test_api_routes_queries_to_reader_others_to_writer(deployment: Deployment) -> None:
    gateway, api = deployment.aws("apigateway"), deployment.resources["RestAPI"]
    reader, writer = deployment.resources["Reader"], deployment.resources["APIHandler"]
    functions = {
        (method, resource["path"]): integration["methodIntegration"]["uri"].split(":function:")[1].split("/")[0]
        for resource in gateway.get_resources(restApiId=api, limit=500)["items"]
        for method, integration in resource.get("resourceMethods", {}).items()
    }
    pings = {name: function for name, function in functions.items() if name[1].startswith("/ping/")}
    assert {name[0] for name in pings} == {"GET", "HEAD", "OPTIONS", "POST"}
    assert {function for name, function in pings.items() if name[0] != "OPTIONS"} == {writer}
    reads = {function for name, function in functions.items() if name[0] == "GET" and name not in pings}
    assert reads == {reader}
    assert {function for (method, _), function in functions.items() if method in ("PUT", "DELETE")} == {writer}
    query_paths = {path for (method, path), function in functions.items() if method == "POST" and function == reader}
    queries = {f"/events/{name}" for name in ("query", "latest", "timeseries", "server")}
    assert query_paths == {*queries, "/jobscheduler/master/api/{collection}"}
    assert functions["POST", "/events"] == functions["POST", "/events/{vocabulary}"] == writer
    for function in ("Reader", "APIHandler"):
        assert [principal for principal, _ in _invokers(deployment, function)] == ["apigateway.amazonaws.com"]


def test_stream_and_queues_are_mapped_to_functions(deployment: Deployment) -> None:
    functions = {deployment.resources[name]: name for name in ("Project", "Observe", "Deliver", "Ingest")}
    mappings = {
        functions[mapping["FunctionArn"].rpartition(":")[2]]: (
            mapping["EventSourceArn"].split(":")[2],
            mapping["State"],
        )
        for mapping in deployment.aws("lambda").list_event_source_mappings()["EventSourceMappings"]
    }
    assert mappings == {
        "Project": ("dynamodb", "Enabled"),
        "Observe": ("dynamodb", "Enabled"),
        "Deliver": ("sqs", "Enabled"),
        "Ingest": ("sqs", "Enabled"),
    }


def test_dead_letter_queues_are_empty(deployment: Deployment) -> None:
    """Runs after the tests above: they must not have left failed messages or records."""
    queues = deployment.aws("sqs")
    for name in ("DeadLetterQueue", "IngestDeadLetterQueue", "StreamFailureQueue"):
        queue = queues.get_queue_attributes(QueueUrl=deployment.resources[name], AttributeNames=["All"])
        assert queue["Attributes"]["ApproximateNumberOfMessages"] == "0", name


def test_signal_ends_all_processes(deployment: Deployment) -> None:
    """Must be the last test: it ends the deployment."""
    assert deployment.stop()
