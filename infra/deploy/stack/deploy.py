"""`make deploy`: deploy a stage as a CloudFormation stack. Shows the changes and asks before it executes them.

Parameters that are not given keep their values. A new stage starts with the parameters in `stages.yaml`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from botocore.exceptions import BotoCoreError, ClientError

from infra.deploy.build.package import ROOT, STAGES, Package, build_package, load_template, print_summary
from infra.deploy.build.route_functions import remove_authorizer
from infra.deploy.build.target import DEFAULT_ARCH, TARGETS
from infra.deploy.local.gateway_responses import add_gateway_responses
from infra.deploy.stack import clients, prompts
from infra.deploy.stack.retained import remove_failed_creation
from infra.deploy.stack.stacks import ChangeSet, ResourceChange, Stack, StackFailed
from infra.deploy.stack.uploads import Uploads

TRANSLATOR: Final = ROOT / ".venv-sam" / "bin" / "python"
STAGES_FILE: Final = Path(__file__).parents[1] / "stages.yaml"
VERIFICATION: Final = "TokenVerification"
Confirm = Callable[[Sequence[ResourceChange]], bool]


class DeploymentRefused(Exception):
    """The parameters are not acceptable. The message says what to do."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Deploy a stage to AWS.")
    parser.add_argument("--stage", choices=STAGES, default="dev")
    parser.add_argument("--yes", action="store_true", help="do not ask, unless a resource that holds data is replaced")
    parser.add_argument("--replace", action="store_true", help="with --yes: do not ask in that case either")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--package", type=Path, help="deploy this directory, made by make package; default: build one")
    source.add_argument("--arch", choices=TARGETS, help="architecture of the functions; default: arm64, on AWS")
    parser.add_argument("parameters", nargs="*", help="template parameters, such as AlarmMail=ops@example.org")
    args = parser.parse_args()
    try:
        confirm = _confirmation(args.stage, args.yes, args.replace)
        stack = deploy(args.stage, parse_parameters(args.parameters), confirm, args.package, args.arch)
    except (StackFailed, DeploymentRefused, ClientError, BotoCoreError, subprocess.CalledProcessError) as error:
        sys.exit(f"\nDeployment failed: {error}")
    if stack is None:
        sys.exit("\nNothing was changed.")
    print(f"\n{stack.name} is deployed:")
    for name, value in stack.outputs().items():
        print(f"  {name:<18} {value}")


def parse_parameters(pairs: Sequence[str]) -> dict[str, str]:
    """Parse command-line arguments of the form `Name=value`."""
    for pair in pairs:
        if "=" not in pair:
            raise SystemExit(f"'{pair}' is not a valid parameter: write it as Name=value")
    return dict(pair.split("=", 1) for pair in pairs)


def deploy(
    stage: str,
    parameters: Mapping[str, str],
    confirm: Confirm,
    package_folder: Path | None = None,
    arch: str | None = None,
) -> Stack | None:
    """Deploy a stage from `package_folder`, or from a package built now for `arch`. None if `confirm` returns False."""
    _check_parameter_names(parameters)
    stack = Stack(f"annals-{stage}")
    if not clear_failed_creation(stack, confirm):
        return None
    stack_parameters = _with_stage_defaults(stage, stack, parameters)
    with tempfile.TemporaryDirectory() as folder:
        # An emulator runs the functions on this machine.
        target = TARGETS[arch or ("local" if clients.endpoint() else DEFAULT_ARCH)]
        package = Package(package_folder) if package_folder else build_package(stage, Path(folder), target)
        print_summary(stage, package)
        change_set = _create_change_set(stack, package, stack_parameters)
    return _execute(change_set, confirm)


def clear_failed_creation(stack: Stack, confirm: Confirm) -> bool:
    """Remove what a failed first deployment left. Returns False if `confirm` returns False."""
    if not stack.is_failed_creation():
        return True
    print(f"{stack.name} was never created completely. It has to be removed before it can be created.")
    if not confirm([ResourceChange("Remove", stack.name, "AWS::CloudFormation::Stack", "False")]):
        return False
    for line in remove_failed_creation(stack):
        print(f"  {line}", flush=True)
    return True


def _check_parameter_names(parameters: Mapping[str, str]) -> None:
    names = load_template()["Parameters"]
    for name in parameters:
        if name not in names:
            raise DeploymentRefused(f"unknown parameter {name}. Valid parameters: {', '.join(sorted(names))}")


def _with_stage_defaults(stage: str, stack: Stack, parameters: Mapping[str, str]) -> dict[str, str]:
    if stack.description() is not None:
        return dict(parameters)
    if not parameters.get("JwtKey") and not parameters.get("OidcIssuer"):
        raise DeploymentRefused(
            "a new stage needs a source of tokens. Give OidcIssuer=https://... and OidcAudience=..., or a key of at "
            "least 32 characters to sign tokens with, as in JwtKey=$(openssl rand -hex 32)"
        )
    defaults: dict[str, str] = yaml.safe_load(STAGES_FILE.read_text())[stage]
    return {**defaults, **parameters}


def _create_change_set(stack: Stack, package: Package, parameters: Mapping[str, str]) -> ChangeSet:
    uploads = Uploads()
    verification = parameters.get(VERIFICATION, stack.parameters().get(VERIFICATION))
    template = _upload_functions(package, uploads, has_authorizer=verification != "functions")
    # An empty GlueScripts means that the operator has turned reports off: keep it.
    has_reports = stack.parameters().get("GlueScripts") != ""
    scripts = {"GlueScripts": uploads.upload_folder(package.scripts)} if has_reports else {}
    template_url = _upload_template(package, template, uploads)
    return stack.create_change_set(template_url, {**scripts, **parameters}, frozenset(template["Parameters"]))


def _execute(change_set: ChangeSet, confirm: Confirm) -> Stack | None:
    if not change_set.changes:
        print(f"{change_set.stack.name} is up to date: there is nothing to change.")
        return change_set.stack
    if not confirm(change_set.changes):
        change_set.discard()
        return None
    for line in change_set.execute():
        print(f"  {line}", flush=True)
    return change_set.stack


def _upload_functions(package: Package, uploads: Uploads, has_authorizer: bool) -> dict[str, Any]:
    """Upload the archives. Returns the template with their S3 addresses, without SAM for an emulator."""
    template: dict[str, Any] = json.loads(package.template.read_text())
    if not has_authorizer:
        remove_authorizer(template)
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            archive = package.folder / resource["Properties"]["CodeUri"]
            resource["Properties"]["CodeUri"] = f"s3://{uploads.bucket}/{uploads.upload_file(archive)}"
    if not clients.endpoint():
        return template
    expanded = expand_sam(template)
    add_gateway_responses(expanded)
    return expanded


def expand_sam(template: Mapping[str, Any]) -> dict[str, Any]:
    """Translate SAM resources to plain CloudFormation, for endpoints without SAM."""
    command = [str(TRANSLATOR), "-m", "infra.deploy.build.sam_expand"]
    text = json.dumps(template)
    # The translator requires a region, although only its partition matters.
    environment = {"AWS_DEFAULT_REGION": "us-east-1", **os.environ}
    process = subprocess.run(  # noqa: S603
        command, cwd=ROOT, env=environment, input=text, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise StackFailed(f"the SAM template could not be expanded: {process.stderr[-2000:]}")
    expanded: dict[str, Any] = json.loads(process.stdout)
    return expanded


def _upload_template(package: Package, template: Mapping[str, Any], uploads: Uploads) -> str:
    path = package.folder / "template.json"
    path.write_text(json.dumps(template))
    return uploads.url(uploads.upload_file(path))


def _confirmation(stage: str, yes: bool, replace: bool) -> Confirm:
    hint = "YES=1 (and REPLACE=1)"

    def confirm(changes: Sequence[ResourceChange]) -> bool:
        print(f"\nChanges to annals-{stage}:")
        for change in changes:
            print(f"  {change}")
        destructive = [change.name for change in changes if change.is_destructive]
        if destructive and not (yes and replace):
            print(f"\nThese resources would be replaced or removed, with their content: {', '.join(destructive)}.")
            return prompts.ask(f"Type {stage} to continue:", hint) == stage
        return yes or prompts.confirm("Continue?", hint)

    return confirm


if __name__ == "__main__":
    main()
