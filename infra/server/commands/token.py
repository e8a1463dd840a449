"""`annals token`: create a token with the key of the server on this machine."""

import os
from argparse import Namespace
from pathlib import Path

from annals_client.cli.exits import MissingToken
from annals_client.cli.printing import Printer
from infra.server.local_tokens import KEY_FILE, sign_token

NO_KEY = """There is no key of a local server in {data_dir}. Run this on the server's machine, or give --data-dir.
If the installation uses OIDC_ISSUER, as on AWS, sign in with that issuer to get a token, then
  export ANNALS_TOKEN=<the token>"""


def run(args: Namespace, printer: Printer) -> None:
    """Print a token. Raises `MissingToken` if there is no key; this command never creates one."""
    path = Path(args.data_dir) / KEY_FILE
    key = os.environ.get("JWT_KEY") or (path.read_text().strip() if path.exists() else None)
    if key is None:
        raise MissingToken(NO_KEY.format(data_dir=args.data_dir))
    organizations = (args.orgs or args.org or "local").split(",")
    token = sign_token(key, args.user, organizations, args.groups.split(","))
    printer.result(token, {"token": token})
