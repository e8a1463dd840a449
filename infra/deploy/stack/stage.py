"""A deployed stage: its tables, accessed with the operator's credentials."""

from dataclasses import dataclass
from typing import Self

from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_on_aws
from infra.deploy.stack.stacks import Stack


class NotDeployed(Exception):
    """The account and region have no stack for the stage."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The resources of a stage that maintenance commands use."""

    name: str
    log_table: str
    views_table: str
    outbox_queue_url: str = ""
    retention: str = ""
    """ISO 8601 duration. Empty: events are kept forever."""
    export_bucket: str = ""
    """Bucket of the exports and the lake."""

    @classmethod
    def from_stack(cls, name: str) -> Self:
        """Read the outputs and parameters of the stage's stack. Raises `NotDeployed`."""
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
            outputs.get("ExportBucketName", ""),
        )

    def components(self) -> Components:
        """Annals on the stage's tables."""
        environment = {
            "STORE": "dynamodb",
            "LOG_TABLE": self.log_table,
            "VIEWS_TABLE": self.views_table,
            "OUTBOX_QUEUE_URL": self.outbox_queue_url,
            "RETENTION": self.retention,
        }
        return build_on_aws(Settings.from_environment(environment))
