"""The template's stack as it would be: what its intrinsics mean, and what its policies allow."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.deploy.build.package import ROOT, template
from tests.deploy.permissions import ANYTHING, Permission, Place

POLICIES = ROOT / ".chalice"
STREAM = "stream/2026-11-16T00:00:00.000"

TO_LOG = ("logs:CreateLogStream", "logs:PutLogEvents")
TO_TRACE = ("xray:PutTraceSegments", "xray:PutTelemetryRecords")
FROM_A_STREAM = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams")
FROM_A_QUEUE = ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
TO_A_QUEUE = ("sqs:SendMessage",)


@dataclass(frozen=True)
class Stack:
    """A stack of our template with its parameters."""

    name: str
    place: Place
    parameters: Mapping[str, str] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    """Where queues are, by their names in the template; whoever makes them says so."""
    template: Mapping[str, Any] = field(default_factory=template)

    def environment(self) -> dict[str, str]:
        """What functions find in their environment; what is there only under a condition is left out."""
        variables = self.template["Globals"]["Function"]["Environment"]["Variables"]
        return {name: self.resolved(value) for name, value in variables.items() if "Fn::If" not in value}

    def allowed(self, function: str) -> set[Permission]:
        """What the policy of a function allows."""
        return {
            Permission(action, self.resolved(resource))
            for statement in statements(function)
            for action in statement["Action"]
            for resource in statement["Resource"]
        }

    def for_lambda(self, function: str) -> set[Permission]:
        """What Lambda does in a function's name, so that no code of ours calls it.

        It writes what the function logs, traces it, and reads and cleans up the stream or the queue that wakes it.
        """
        group = self.place.arn("logs", f"log-group:{self._log_group(function)}:log-stream:a-stream")
        found = {Permission(action, group) for action in TO_LOG} | {Permission(action, ANYTHING) for action in TO_TRACE}
        return found.union(*map(self._for_mapping, self._mappings(function)))

    def resolved(self, value: Any) -> str:
        """What CloudFormation makes of a value."""
        match value:
            case {"Ref": name}:
                return self._ref(name)
            case {"Fn::GetAtt": [name, attribute]}:
                return self._attribute(name, attribute)
            case {"Fn::Sub": text}:
                return re.sub(r"\$\{([^}]+)\}", lambda found: self._substituted(found[1]), text)
            case str():
                return value
        raise NotImplementedError(f"nobody has said what {value} is here")

    def resource_name(self, name: str) -> str:
        """What a table or a queue of the template is called."""
        properties = self.template["Resources"][name]["Properties"]
        return self.resolved(properties.get("QueueName", {"Fn::Sub": f"${{AWS::StackName}}-{name}"}))

    def _log_group(self, function: str) -> str:
        logging = self.template["Resources"][logical(function)]["Properties"]["LoggingConfig"]
        group = self.template["Resources"][logging["LogGroup"]["Ref"]]
        return self.resolved(group["Properties"]["LogGroupName"])

    def _mappings(self, function: str) -> Iterator[Mapping[str, Any]]:
        for resource in self.template["Resources"].values():
            if resource.get("Type") == "AWS::Lambda::EventSourceMapping":
                properties = resource["Properties"]
                if properties["FunctionName"] == {"Ref": logical(function)}:
                    yield properties

    def _for_mapping(self, mapping: Mapping[str, Any]) -> set[Permission]:
        source = self.resolved(mapping["EventSourceArn"])
        actions = FROM_A_STREAM if STREAM in source else FROM_A_QUEUE
        found = {Permission(action, source) for action in actions}
        if "DestinationConfig" in mapping:
            destination = self.resolved(mapping["DestinationConfig"]["OnFailure"]["Destination"])
            found |= {Permission(action, destination) for action in TO_A_QUEUE}
        return found

    def _substituted(self, name: str) -> str:
        resource, _, attribute = name.partition(".")
        return self._attribute(resource, attribute) if attribute else self._ref(name)

    def _ref(self, name: str) -> str:
        pseudo = {
            "AWS::StackName": self.name,
            "AWS::Partition": "aws",
            "AWS::Region": self.place.region,
            "AWS::AccountId": self.place.account,
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.template["Parameters"]:
            return self.parameters.get(name, str(self.template["Parameters"][name]["Default"]))
        return self.urls[name] if name in self.urls else self.resource_name(name)

    def _attribute(self, name: str, attribute: str) -> str:
        match self.template["Resources"][name]["Type"], attribute:
            case "AWS::DynamoDB::Table", "Arn":
                return self.place.arn("dynamodb", f"table/{self.resource_name(name)}")
            case "AWS::DynamoDB::Table", "StreamArn":
                return self.place.arn("dynamodb", f"table/{self.resource_name(name)}/{STREAM}")
            case "AWS::SQS::Queue", "Arn":
                return self.place.arn("sqs", self.resource_name(name))
        raise NotImplementedError(f"nobody has said what {name}.{attribute} is here")


def logical(function: str) -> str:
    """What a function is called in the template."""
    return "APIHandler" if function == "api_handler" else function.capitalize()


def statements(function: str) -> list[dict[str, Any]]:
    """The statements of a function's policy."""
    found: list[dict[str, Any]] = json.loads((POLICIES / f"policy-{function}.json").read_text())["Statement"]
    return found
