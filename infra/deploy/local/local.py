"""`make cloud`: the cloud on this machine. The same package and template as `make deploy`, real Lambdas behind them.

With AWS_ENDPOINT_URL in the environment that endpoint is used, LocalStack for instance; else a ministack is started
that ends with this command.
"""

import argparse
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from infra.deploy.build.package import BUILD, STAGES
from infra.deploy.local.emulator import NotStarted, is_ministack, ministack
from infra.deploy.stack import clients
from infra.deploy.stack.deploy import Refused, deploy, given_parameters
from infra.deploy.stack.stacks import Failed
from infra.server import local_tokens

PORT: Final = 4566
ORGANIZATION: Final = "local"
MAIL_FROM: Final = "annals@example.org"
ENDINGS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Cloud:
    """A deployment on an endpoint."""

    api: str
    key: str
    outputs: dict[str, str]

    def token(self, user: str = "operator", organization: str = ORGANIZATION, *groups: str) -> str:
        """A token for it."""
        return local_tokens.token(self.key, user, [organization], list(groups or ("publishers", "readers", "admins")))


def main() -> None:
    """Deploy, say how to use it, and wait."""
    parser = argparse.ArgumentParser(description="Deploy to a LocalStack-compatible endpoint on this machine.")
    parser.add_argument("--stage", choices=STAGES, default="dev")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--once", action="store_true", help="end when it is deployed; only with AWS_ENDPOINT_URL")
    parser.add_argument("--package", type=Path, help="a directory that make package has made; else one is made now")
    parser.add_argument("parameters", nargs="*", help="parameters of the template, as in Retention=P30D")
    args = parser.parse_args()
    for number in ENDINGS:
        signal.signal(number, _end)
    is_own = not clients.endpoint()
    try:
        # Functions may still write there while they end.
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        with scratch as home, running(Path(home), args.port):
            _greet(deployed(args.stage, given_parameters(args.parameters), args.package))
            if is_own or not args.once:
                print("Ctrl-C ends it." if is_own else "Ctrl-C ends this command; the stack stays.", flush=True)
                signal.pause()
    except (Failed, Refused, NotStarted) as failure:
        sys.exit(f"Not deployed: {failure}")


def _end(_number: int, _frame: object) -> NoReturn:
    """End at once, but only once. Signals are not blocked: what is started here would not hear them either."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


@contextmanager
def running(home: Path, port: int) -> Iterator[str]:
    """The endpoint that all clients talk to: the one of the environment, or a ministack."""
    if clients.endpoint():
        clients.pretend(clients.endpoint())
        yield clients.endpoint()
        return
    print("Starting ministack ...", flush=True)
    with ministack(home, port) as address:
        clients.pretend(address)
        yield address


def deployed(stage: str, parameters: dict[str, str], packaged: Path | None = None) -> Cloud:
    """Deploy to the endpoint, without asking, and make a first organization."""
    address = clients.endpoint()
    key = local_tokens.key(BUILD)
    wanted = {"JwtKey": key, "MailFrom": MAIL_FROM, "DeletionProtection": "false", **parameters}
    if is_ministack(address):
        # It knows no workflows of Glue, and its jobs do nothing. LocalStack tells functions by itself where AWS is.
        wanted = {"FunctionsEndpoint": address, "GlueScripts": "", **wanted}
    stack = deploy(stage, wanted, lambda _: True, packaged)
    if stack is None:
        raise Failed("nobody can say no here")
    _let_send_mail()
    outputs = stack.outputs()
    cloud = Cloud(f"{address}/restapis/{outputs['RestAPIId']}/api/_user_request_", key, outputs)
    _create_organization(cloud)
    return cloud


def _let_send_mail() -> None:
    mail = clients.client("sesv2")
    with suppress(mail.exceptions.AlreadyExistsException):
        mail.create_email_identity(EmailIdentity=MAIL_FROM)


def _create_organization(cloud: Cloud) -> None:
    request = urllib.request.Request(  # noqa: S310  (an endpoint of HTTP)
        f"{cloud.api}/organizations/{ORGANIZATION}",
        method="PUT",
        headers={"Authorization": f"Bearer {cloud.token()}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60):  # noqa: S310
        pass


def _greet(cloud: Cloud) -> None:
    token = cloud.token()
    print(
        f"\nAnnals is deployed to {clients.endpoint()}. In another terminal:\n\n"
        f"  export ANNALS={cloud.api}\n"
        f"  export TOKEN={token}\n"
        "  curl -s $ANNALS/events -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' \\\n"
        '    -d \'{"events": [{"type": ["hello", "cloud"]}]}\'\n',
        flush=True,
    )


if __name__ == "__main__":
    main()
