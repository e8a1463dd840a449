"""`make cloud`: deploy to an AWS emulator on this machine, with the package and the template of `make deploy`.

Uses the endpoint in AWS_ENDPOINT_URL, such as LocalStack. Without it, starts a ministack that ends with this command.
"""

import argparse
import signal
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from botocore.exceptions import ClientError

from infra.deploy.build.package import BUILD, STAGES
from infra.deploy.local.emulator import EmulatorNotStarted, is_ministack, run_ministack
from infra.deploy.stack import clients
from infra.deploy.stack.deploy import DeploymentRefused, deploy, parse_parameters
from infra.deploy.stack.stacks import StackFailed
from infra.server import local_tokens

PORT: Final = 4566
ORGANIZATION: Final = "local"
MAIL_FROM: Final = "annals@example.org"
EXIT_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class LocalDeployment:
    """A deployment on an emulator."""

    api: str
    key: str
    outputs: dict[str, str]

    def token(self, user: str = "operator", organization: str = ORGANIZATION, *groups: str) -> str:
        """A token for the API. Has all groups unless `groups` are given."""
        return local_tokens.sign_token(
            self.key, user, [organization], list(groups or ("publishers", "readers", "admins"))
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Deploy to a LocalStack-compatible endpoint on this machine.")
    parser.add_argument("--stage", choices=STAGES, default="dev")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--once", action="store_true", help="exit after the deployment; only with AWS_ENDPOINT_URL")
    parser.add_argument("--package", type=Path, help="deploy this directory, made by make package ARCH=local")
    parser.add_argument("parameters", nargs="*", help="template parameters, such as Retention=P30D")
    args = parser.parse_args()
    for number in EXIT_SIGNALS:
        signal.signal(number, _exit)
    owns_emulator = not clients.endpoint()
    try:
        # Functions may still write to the directory while it is removed.
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        with scratch as home, emulator(Path(home), args.port):
            _print_usage(deploy_locally(args.stage, parse_parameters(args.parameters), args.package))
            if owns_emulator or not args.once:
                print("Ctrl-C ends it." if owns_emulator else "Ctrl-C ends this command; the stack stays.", flush=True)
                signal.pause()
    except (StackFailed, DeploymentRefused, EmulatorNotStarted) as error:
        sys.exit(f"Deployment failed: {error}")


def _exit(_number: int, _frame: object) -> NoReturn:
    """Exit on the first signal and ignore further ones.

    The signals are ignored, not blocked: child processes inherit a blocked signal and could not be ended.
    """
    for number in EXIT_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


@contextmanager
def emulator(home: Path, port: int) -> Iterator[str]:
    """Direct all clients to the endpoint in the environment, or to a ministack that runs within the block."""
    if clients.endpoint():
        clients.use_emulator(clients.endpoint())
        yield clients.endpoint()
        return
    print("Starting ministack ...", flush=True)
    with run_ministack(home, port) as address:
        clients.use_emulator(address)
        yield address


def deploy_locally(stage: str, parameters: dict[str, str], package_folder: Path | None = None) -> LocalDeployment:
    """Deploy to the emulator without asking, and create a first organization."""
    address = clients.endpoint()
    key = local_tokens.signing_key(BUILD)
    stack_parameters = {"JwtKey": key, "MailFrom": MAIL_FROM, "DeletionProtection": "false"}
    if is_ministack(address):
        # LocalStack, unlike ministack, sets AWS_ENDPOINT_URL for functions.
        stack_parameters["FunctionsEndpoint"] = address
    else:
        # LocalStack calls no authorizers.
        stack_parameters["TokenVerification"] = "functions"
    if not _is_available("glue", "list_workflows"):
        print("This endpoint has no Glue workflows: deploying without history and reports.", flush=True)
        stack_parameters["GlueScripts"] = ""
    if not _is_available("sesv2", "list_email_identities"):
        print("This endpoint has no SES (API version 2): deploying without mail.", flush=True)
        stack_parameters["MailFrom"] = ""
    stack_parameters |= parameters
    stack = deploy(stage, stack_parameters, lambda _: True, package_folder)
    if stack is None:
        raise AssertionError("the deployment is always confirmed")
    if stack_parameters["MailFrom"]:
        _create_mail_identity(stack_parameters["MailFrom"])
    outputs = stack.outputs()
    deployment = LocalDeployment(f"{address}/restapis/{outputs['RestAPIId']}/api/_user_request_", key, outputs)
    _create_organization(deployment)
    return deployment


def _is_available(service: str, operation: str) -> bool:
    """Whether the emulator has this operation."""
    try:
        getattr(clients.client(service), operation)()
    except ClientError:
        return False
    return True


def _create_mail_identity(address: str) -> None:
    ses = clients.client("sesv2")
    with suppress(ses.exceptions.AlreadyExistsException):
        ses.create_email_identity(EmailIdentity=address)


def _create_organization(deployment: LocalDeployment) -> None:
    request = urllib.request.Request(  # noqa: S310  (a local HTTP endpoint)
        f"{deployment.api}/organizations/{ORGANIZATION}",
        method="PUT",
        headers={"Authorization": f"Bearer {deployment.token()}", "Content-Type": "application/json"},
    )
    try:
        urllib.request.urlopen(request, timeout=60).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        print(
            f"\nThe API answers {error.code}, so the organization {ORGANIZATION} was not created. LocalStack runs no "
            "functions without Docker: see docs/testing.md.",
            flush=True,
        )


def _print_usage(deployment: LocalDeployment) -> None:
    print(
        f"\nAnnals is deployed to {clients.endpoint()}. In another terminal:\n\n"
        f"  export ANNALS={deployment.api}\n"
        f"  export TOKEN={deployment.token()}\n"
        "  curl -s $ANNALS/events -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' \\\n"
        '    -d \'{"events": [{"type": ["hello", "cloud"]}]}\'\n',
        flush=True,
    )


if __name__ == "__main__":
    main()
