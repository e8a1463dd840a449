"""`make deploy`: a stage as a stack of CloudFormation. Shows what would change, and asks before it changes it.

Parameters stay as they were unless they are given; a new stage begins with those of `stages.yaml`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from botocore.exceptions import BotoCoreError, ClientError

from infra.deploy.build.package import ROOT, STAGES, Package, package, tell
from infra.deploy.build.package import template as ours
from infra.deploy.stack import clients
from infra.deploy.stack.stacks import Change, Failed, Proposal, Stack
from infra.deploy.stack.uploads import Uploads

TRANSLATOR: Final = ROOT / ".venv-sam" / "bin" / "python"
Confirm = Callable[[Sequence[Change]], bool]


class Refused(Exception):
    """It cannot be deployed like this; the message says what to do."""


def main() -> None:
    """Deploy one stage."""
    parser = argparse.ArgumentParser(description="Deploy a stage to AWS.")
    parser.add_argument("--stage", choices=STAGES, default="dev")
    parser.add_argument("--yes", action="store_true", help="do not ask, except before something precious is replaced")
    parser.add_argument("--replace", action="store_true", help="with --yes: do not ask then, either")
    parser.add_argument("--package", type=Path, help="a directory that make package has made; else one is made now")
    parser.add_argument("parameters", nargs="*", help="parameters of the template, as in AlarmMail=ops@example.org")
    args = parser.parse_args()
    try:
        confirm = _asking(args.stage, args.yes, args.replace)
        stack = deploy(args.stage, given_parameters(args.parameters), confirm, args.package)
    except (Failed, Refused, ClientError, BotoCoreError, subprocess.CalledProcessError) as failure:
        sys.exit(f"\nNot deployed: {failure}")
    if stack is None:
        sys.exit("\nNothing was changed.")
    print(f"\n{stack.name} is deployed:")
    for name, value in stack.outputs().items():
        print(f"  {name:<18} {value}")


def given_parameters(pairs: Sequence[str]) -> dict[str, str]:
    """Parameters as they are written on a command line."""
    for pair in pairs:
        if "=" not in pair:
            raise SystemExit(f"'{pair}' is no parameter: write it as Name=value")
    return dict(pair.split("=", 1) for pair in pairs)


def deploy(stage: str, parameters: Mapping[str, str], confirm: Confirm, packaged: Path | None = None) -> Stack | None:
    """Bring a stage to what the package says; None if somebody said no."""
    _check_names(parameters)
    stack = Stack(f"annals-{stage}")
    wanted = _parameters(stage, stack, parameters)
    with tempfile.TemporaryDirectory() as folder:
        made = Package(packaged) if packaged else package(stage, Path(folder))
        tell(stage, made)
        proposal = _proposed(stack, made, wanted)
    return _executed(proposal, confirm)


def _check_names(parameters: Mapping[str, str]) -> None:
    names = ours()["Parameters"]
    for name in parameters:
        if name not in names:
            raise Refused(f"there is no parameter {name}: there are {', '.join(sorted(names))}")


def _proposed(stack: Stack, made: Package, wanted: Mapping[str, str]) -> Proposal:
    uploads = Uploads()
    template = _template(made, uploads)
    # Whoever has chosen to have no reports goes on without them.
    has_reports = stack.parameters().get("GlueScripts") != ""
    scripts = {"GlueScripts": uploads.folder(made.scripts)} if has_reports else {}
    return stack.propose(_uploaded(made, template, uploads), {**scripts, **wanted}, frozenset(template["Parameters"]))


def _executed(proposal: Proposal, confirm: Confirm) -> Stack | None:
    if not proposal.changes:
        print(f"{proposal.stack.name} is as the package says: there is nothing to change.")
        return proposal.stack
    if not confirm(proposal.changes):
        proposal.discard()
        return None
    for line in proposal.execute():
        print(f"  {line}", flush=True)
    return proposal.stack


def _parameters(stage: str, stack: Stack, given: Mapping[str, str]) -> dict[str, str]:
    if stack.description() is not None:
        return dict(given)
    of_stage: dict[str, str] = yaml.safe_load(Path(__file__).parents[1].joinpath("stages.yaml").read_text())[stage]
    if not given.get("JwtKey") and not given.get("OidcIssuer"):
        raise Refused(
            "who may come in? Give OidcIssuer=https://... and OidcAudience=..., or a key of 32 characters or more that "
            "you sign tokens with, as in JwtKey=$(openssl rand -hex 32)"
        )
    return {**of_stage, **given}


def _template(made: Package, uploads: Uploads) -> dict[str, Any]:
    """The template with archives where AWS finds them, in a language that the endpoint understands."""
    whole: dict[str, Any] = json.loads(made.template.read_text())
    for resource in whole["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            archive = made.folder / resource["Properties"]["CodeUri"]
            resource["Properties"]["CodeUri"] = f"s3://{uploads.bucket}/{uploads.file(archive)}"
    return expanded(whole) if clients.endpoint() else whole


def expanded(template: Mapping[str, Any]) -> dict[str, Any]:
    """The template without SAM, for endpoints that do not know it."""
    command = [str(TRANSLATOR), "-m", "infra.deploy.build.sam_expand"]
    text = json.dumps(template)
    ended = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        raise Failed(f"the template cannot be expanded: {ended.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _uploaded(made: Package, template: Mapping[str, Any], uploads: Uploads) -> str:
    path = made.folder / "template.json"
    path.write_text(json.dumps(template))
    return uploads.url(uploads.file(path))


def _asking(stage: str, yes: bool, replace: bool) -> Confirm:
    def confirmed(changes: Sequence[Change]) -> bool:
        print(f"\nThis would change annals-{stage}:")
        for change in changes:
            print(f"  {change}")
        endangered = [change.name for change in changes if change.endangers]
        if endangered and not (yes and replace):
            print(f"\nThese would be replaced or removed, and what they hold with them: {', '.join(endangered)}.")
            return _typed(f"Type {stage} to go on: ") == stage
        return yes or _typed("Go on? [y/N] ").lower() in ("y", "yes")

    return confirmed


def _typed(question: str) -> str:
    try:
        return input(f"\n{question}").strip()
    except EOFError:
        print("Nobody is there to answer: say YES=1 (and REPLACE=1).")
        return ""


if __name__ == "__main__":
    main()
