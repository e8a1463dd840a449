"""A stage as its operator finds it: the tables of its stack, used with the operator's own credentials."""

from dataclasses import dataclass
from typing import Self

from chalicelib.settings import Settings
from chalicelib.wiring import Annals, on_aws
from infra.deploy.stack.stacks import Stack


class NotDeployed(Exception):
    """There is no such stage in this account and region."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a stage keeps what it keeps."""

    name: str
    log_table: str
    views_table: str
    outbox_queue_url: str = ""
    retention: str = ""
    """How long events are kept, as ISO-8601; empty: for ever."""

    @classmethod
    def deployed(cls, name: str) -> Self:
        """What the stage's stack says."""
        stack = Stack(f"annals-{name}")
        outputs = stack.outputs()
        if "LogTableName" not in outputs:
            raise NotDeployed(f"there is no stack {stack.name} in this account and region")
        return cls(
            name,
            outputs["LogTableName"],
            outputs["ViewsTableName"],
            outputs["OutboxQueueUrl"],
            stack.parameters().get("Retention", ""),
        )

    def annals(self) -> Annals:
        """The product on the stage's tables."""
        environment = {
            "STORE": "dynamodb",
            "LOG_TABLE": self.log_table,
            "VIEWS_TABLE": self.views_table,
            "OUTBOX_QUEUE_URL": self.outbox_queue_url,
            "RETENTION": self.retention,
        }
        return on_aws(Settings.from_environment(environment))
