"""Checks of requests: routing, concurrency, large responses, tokens, traces and read costs."""

import random
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from infra.deploy.smoke.target import CheckFailed, NotPossible, Target
from infra.deploy.stack import clients

ORDER_KEYS: Final = ("/smoke/a b,1", "/smoke/straße,2", "/smoke/x%2Fy,3")
POLLS: Final = 200
MAX_PUBLISH_S: Final = 10.0
POLL_TIMEOUT_S: Final = 20
CYRILLIC_CHARACTERS: Final = 150_000
"""Per event: 300 KB of UTF-8, near the limit of a commit."""
CYRILLIC_EVENTS: Final = 17
"""5 MB in all."""
EXPIRED_TOKEN_MINUTES: Final = 10
COUNTED_READS: Final = 60
MAX_READ_UNITS: Final = 5.0
SECONDS_PER_DAY: Final = 86_400


def route_requests(target: Target) -> str:
    """Publish, follow, the console, unknown paths, and path parameters with special characters."""
    target.create_organization()
    target.publish({"type": ["smoke", "first"]})
    events, position = target.read()
    _expect([event["type"] for event in events] == [["smoke", "first"]], f"read {events}")
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(target.read, position, timeout=POLL_TIMEOUT_S)
        target.publish({"type": ["smoke", "second"]})
        followed, _ = following.result()
    _expect([event["type"] for event in followed] == [["smoke", "second"]], f"followed {followed}")
    for path in ("/", "/console/app.js", "/health"):
        target.request("GET", path).expect(HTTPStatus.OK)
    target.request("GET", "/no/such/path").expect(HTTPStatus.NOT_FOUND)
    _read_special_paths(target)
    if not target.is_emulated:
        _expect(_status(f"{target.api.removesuffix('/api')}/Stage/health") != HTTPStatus.OK, "there is a stage `Stage`")
    return "published, followed, console, unknown path, special characters"


def _read_special_paths(target: Target) -> None:
    orders = [{"TYPE": "OrderAdded", "key": key, "nodeId": "100"} for key in ORDER_KEYS]
    target.request("POST", "/events/scheduler", {"events": orders}).expect(HTTPStatus.CREATED)
    for key in ORDER_KEYS:
        target.request("GET", f"/objects/order{quote(key)}").expect(HTTPStatus.OK)


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310  (the API's own address)
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def poll_in_parallel(target: Target) -> str:
    """Publishing works while more followers wait than there are functions for them."""
    target.require_aws("the emulator runs each function as a process, and 200 at once are too many")
    target.parameter("ReaderConcurrency", "deploy with ReaderConcurrency=50")
    target.create_organization()
    target.publish({"type": ["smoke"]})
    _, position = target.read()
    query = {"after": position, "timeout": POLL_TIMEOUT_S}
    with ThreadPoolExecutor(POLLS) as threads:
        polls = [threads.submit(target.request, "GET", "/events", query=query) for _ in range(POLLS)]
        time.sleep(POLL_TIMEOUT_S / 4)
        started_s = time.monotonic()
        target.publish({"type": ["smoke"]})
        duration_s = time.monotonic() - started_s
        statuses = [poll.result().status for poll in polls]
    _expect(duration_s < MAX_PUBLISH_S, f"publishing took {duration_s:.1f} s")
    _expect(set(statuses) <= {200, 429, 503}, f"polls had the statuses {sorted(set(statuses))}")
    return f"published in {duration_s:.1f} s; {statuses.count(200)} of {POLLS} polls answered, the others told to retry"


def read_cyrillic(target: Target) -> str:
    """Pages of text that JSON escapes would make larger than Lambda's limit."""
    target.create_organization()
    rng = random.Random(0)
    texts = ["".join(rng.choices("абвгдежзиклмнопрст", k=CYRILLIC_CHARACTERS)) for _ in range(CYRILLIC_EVENTS)]
    for text in texts:
        target.publish({"type": ["smoke"], "payload": {"type": "json", "data": text}})
    read: list[Any] = []
    position, pages = 0, 0
    while len(read) < len(texts):
        events, position = target.read(position)
        _expect(bool(events), f"an empty page after {len(read)} events")
        read += (event["payload"]["data"] for event in events)
        pages += 1
    _expect(read == texts, "the texts are not those that were published")
    return f"5 MB in {pages} pages"


def send_expired_tokens(target: Target) -> str:
    """An expired token is refused, and is not an error of the authorizer."""
    expired = target.token(now_s=time.time() - 365 * SECONDS_PER_DAY)
    target.request("GET", "/events", token=expired).expect(HTTPStatus.UNAUTHORIZED)
    target.require_aws("the emulator has no metrics of functions; the expired token got 401")
    for _ in range(EXPIRED_TOKEN_MINUTES):
        time.sleep(60)
        target.request("GET", "/events", token=expired).expect(HTTPStatus.UNAUTHORIZED)
    errors = target.metric("AWS/Lambda", "Errors", ("FunctionName", target.resource("Bearer")), EXPIRED_TOKEN_MINUTES)
    _expect(errors == 0, f"the authorizer counted {errors:.0f} errors, which would raise its alarm")
    return f"401 for {EXPIRED_TOKEN_MINUTES} minutes, no errors counted"


def find_trace(target: Target) -> str:
    """With Tracing=on, X-Ray has traces of requests."""
    target.require_aws("the emulator has no X-Ray")
    if target.stack.parameters().get("Tracing") != "on":
        raise NotPossible("deploy with Tracing=on")
    target.create_organization()
    xray = clients.client("xray")

    def has_trace() -> bool:
        target.request("GET", "/events").expect(HTTPStatus.OK)
        now_s = time.time()
        return bool(xray.get_trace_summaries(StartTime=now_s - 300, EndTime=now_s)["TraceSummaries"])

    target.until(has_trace, "a trace in X-Ray")
    return "X-Ray has traces"


def count_read_units(target: Target) -> str:
    """With Retention, a read at the end of the log costs a few units."""
    target.require_aws("the emulator has no metrics of tables")
    target.parameter("Retention", "deploy with Retention=PT1H")
    target.create_organization()
    target.publish({"type": ["smoke"]})
    _, position = target.read()
    for _ in range(COUNTED_READS):
        target.read(position)
    table = ("TableName", target.stage.log_table)
    target.until(lambda: target.metric("AWS/DynamoDB", "ConsumedReadCapacityUnits", table, 5) > 0, "a metric of reads")
    # The metric of the last minute arrives late.
    time.sleep(120)
    units = target.metric("AWS/DynamoDB", "ConsumedReadCapacityUnits", table, 5) / COUNTED_READS
    _expect(units <= MAX_READ_UNITS, f"{units:.1f} units per read, at most {MAX_READ_UNITS} are expected")
    return f"{units:.1f} units per read"


def _expect(is_right: bool, otherwise: str) -> None:
    if not is_right:
        raise CheckFailed(otherwise)
