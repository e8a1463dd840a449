"""Checks of queues, streams and mail."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from chalicelib.domain.views.record import PROJECTOR
from chalicelib.services.consumers.checkpoints import load_checkpoint
from infra.deploy.smoke.target import CheckFailed, Target
from infra.deploy.stack import clients

MESSAGES: Final = 10
BAD_MESSAGE: Final = 4
BURST: Final = 1_000
MAILS: Final = 30
MAIL_SIMULATOR: Final = "success@simulator.amazonses.com"
"""SES accepts mail to it also in the sandbox, and delivers it nowhere."""
PAUSE_S: Final = 300.0
EMULATOR_PAUSE_S: Final = 3.0


def ingest_bad_message(target: Target) -> str:
    """One message that cannot be appended among nine that can."""
    target.create_organization()
    sqs, queue = clients.client("sqs"), target.stack.outputs()["IngestQueueUrl"]
    types = [[f"message-{n}"] if n != BAD_MESSAGE else ["not/valid"] for n in range(MESSAGES)]
    bodies = [json.dumps({"events": [{"type": type_, "key": f"/{target.organization}"}]}) for type_ in types]
    entries = [
        {
            "Id": str(n),
            "MessageBody": body,
            "MessageGroupId": target.organization,
            "MessageDeduplicationId": f"{target.run}-{n}",
        }
        for n, body in enumerate(bodies)
    ]
    sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    target.until(lambda: len(target.read()[0]) >= MESSAGES - 1, "the nine good messages in the log")
    read = [event["type"] for event in target.read()[0]]
    if read != [type_ for n, type_ in enumerate(types) if n != BAD_MESSAGE]:
        raise CheckFailed(f"the log has {read}")
    target.until(lambda: _take_dead_letter(target, bodies[BAD_MESSAGE]), "the bad message in the dead-letter queue")
    return "nine appended in order, one in the dead-letter queue"


def _take_dead_letter(target: Target, body: str) -> bool:
    """Remove this message from the dead-letter queue. Others stay."""
    sqs, queue = clients.client("sqs"), target.resource("IngestDeadLetterQueue")
    wanted = {"QueueUrl": queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 5}
    for message in sqs.receive_message(**wanted).get("Messages", ()):
        if message["Body"] == body:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            return True
    return False


def deliver_burst(target: Target) -> str:
    """One request of 1,000 events without keys, each for an observer."""
    target.create_organization()
    target.observe("burst", "app", {"to": "smoke"}, "burst/*")
    started_s = time.monotonic()
    target.publish(*({"type": ["burst", str(n)]} for n in range(BURST)))
    _wait_for_deliveries(target, "burst", BURST)
    return f"{BURST} messages in {time.monotonic() - started_s:.0f} s"


def send_mails(target: Target) -> str:
    """In the sandbox of SES, mail to a stranger is parked. 30 mails at once exceed its rate, but all are sent."""
    target.parameter("MailFrom", "deploy with MailFrom=... of an identity that is verified in SES")
    target.create_organization()
    sandbox = "the emulator has no sandbox" if target.is_emulated else _mail_stranger(target)
    target.observe("mails", "mail", {"to": MAIL_SIMULATOR}, "mail/*")
    target.publish(*({"type": ["mail", str(n)], "key": f"/mail/{n}"} for n in range(MAILS)))
    _wait_for_deliveries(target, "mails", MAILS)
    return f"{MAILS} mails sent; {sandbox}"


def _wait_for_deliveries(target: Target, observer: str, number: int) -> None:
    """Wait until an observer has sent this number of messages. Raises `CheckFailed` if one was parked."""

    def is_done() -> bool:
        counts = target.deliveries(observer)
        return counts["parked"] > 0 or counts["sent"] >= number

    target.until(is_done, f"{number} messages of the observer {observer}")
    counts = target.deliveries(observer)
    if (counts["sent"], counts["parked"]) != (number, 0):
        raise CheckFailed(
            f"{counts['sent']} messages were sent, {counts['parked']} parked: {_failures(target, observer)}"
        )


def _failures(target: Target, observer: str) -> str:
    """The reasons why messages were parked."""
    response = target.request("GET", f"/observers/{observer}/failures").expect(HTTPStatus.OK)
    return "; ".join(sorted({str(failure.get("error")) for failure in response.json()["failures"]}))


def _mail_stranger(target: Target) -> str:
    if clients.client("sesv2").get_account()["ProductionAccessEnabled"]:
        return "SES is out of the sandbox"
    target.observe("stranger", "mail", {"to": f"{target.organization}@example.org"}, "stranger")
    target.publish({"type": ["stranger"]})
    target.until(lambda: target.deliveries("stranger")["parked"] == 1, "the mail to a stranger parked")
    return f"mail to a stranger was parked: {_failures(target, 'stranger')}"


def stop_projection(target: Target) -> str:
    """The views reach the head of the log after `project` could not run for some minutes."""
    server = target.create_organization()
    components = target.stage.components()

    def has_caught_up() -> bool:
        checkpoint: Any = load_checkpoint(PROJECTOR, server, components.stores.views)
        return bool(checkpoint.head.session == components.stores.log.head(server).session)

    with _without_concurrency(target.resource("Project")):
        for number in range(MESSAGES):
            target.publish({"type": ["smoke", str(number)]})
        time.sleep(EMULATOR_PAUSE_S if target.is_emulated else PAUSE_S)
        if has_caught_up():
            target.require_aws("the emulator runs functions although their concurrency is 0")
            raise CheckFailed("`project` ran although its concurrency is 0")
    target.until(has_caught_up, "the views at the head of the log")
    return "the views caught up"


@contextmanager
def _without_concurrency(function: str) -> Iterator[None]:
    """Keep a function from running. Its previous setting is restored."""
    functions = clients.client("lambda")
    previous = functions.get_function_concurrency(FunctionName=function).get("ReservedConcurrentExecutions")
    functions.put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=0)
    try:
        yield
    finally:
        if previous is None:
            functions.delete_function_concurrency(FunctionName=function)
        else:
            functions.put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=previous)
