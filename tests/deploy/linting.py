"""Expands templates as AWS does, and lints them with and without the hub."""

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

from infra.deploy.build.package import ROOT
from infra.deploy.stack.deploy import expand_sam

Template = dict[str, Any]

LINTER = ROOT / ".venv-sam" / "bin" / "cfn-lint"
HUB_PARAMETERS = {
    "Hub": "on",
    "HubImage": "123456789012.dkr.ecr.eu-central-1.amazonaws.com/annals:1",
    "HubVpc": "vpc-0123456789abcdef0",
    "HubSubnets": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
    "HubCertificate": "arn:aws:acm:eu-central-1:123456789012:certificate/12345678-1234-1234-1234-123456789012",
    "HubDomain": "hub.example.org",
    "EventBuses": "arn:aws:events:eu-central-1:123456789012:event-bus/default",
}
HUB_CONDITION = "HasHub"
HUB_CONDITIONS = {HUB_CONDITION, "HasHubAndEventBuses"}


def expand(template: Template) -> Template:
    """The template without SAM."""
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://bucket/key"
    return expand_sam(template)


def with_hub(template: Template) -> Template:
    """The template with parameters that create a hub as its defaults."""
    changed = copy.deepcopy(template)
    for name, value in HUB_PARAMETERS.items():
        changed["Parameters"][name]["Default"] = value
    return changed


def without_hub(template: Template) -> Template:
    """The template with everything removed that CloudFormation does not create with Hub=off.

    References to anything that is removed are errors for the linter.
    """
    changed = _without_condition(copy.deepcopy(template))
    for section in ("Resources", "Outputs"):
        entries = changed[section].items()
        changed[section] = {name: entry for name, entry in entries if entry.get("Condition") not in HUB_CONDITIONS}
    for section in ("Parameters", "Conditions", "Rules"):
        changed[section] = {name: entry for name, entry in changed[section].items() if "Hub" not in name}
    return {section: entries for section, entries in changed.items() if entries}


def lint(template: Template, folder: Path) -> tuple[int, str]:
    """Exit code and messages of cfn-lint."""
    path = folder / "template.json"
    path.write_text(json.dumps(template))
    process = subprocess.run([LINTER, path], capture_output=True, text=True, check=False)
    return process.returncode, process.stdout


def _without_condition(value: Any) -> Any:
    match value:
        case {"Fn::If": [condition, _, otherwise]} if condition == HUB_CONDITION:
            return _without_condition(otherwise)
        case dict():
            return {name: _without_condition(content) for name, content in value.items()}
        case list():
            return [_without_condition(content) for content in value]
    return value
