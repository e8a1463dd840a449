"""`make rebuild STAGE=…`: build the views of a stage anew from its log, also while the stage is in use."""

import argparse
import sys

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.adapters.aws.protocol import Refusal
from chalicelib.domain.errors import AnnalsError
from infra.deploy.build.package import STAGES
from infra.deploy.stack.stage import NotDeployed, Stage
from infra.tools.rebuilding import rebuild_all


def main() -> None:
    """Rebuild the views of one stage."""
    parser = argparse.ArgumentParser(description="Build the views of a stage anew.")
    parser.add_argument("--stage", choices=STAGES, required=True)
    args = parser.parse_args()
    try:
        rebuild_all(Stage.deployed(args.stage).annals())
    except (NotDeployed, AnnalsError, Refusal, ClientError, BotoCoreError) as failure:
        sys.exit(f"Not rebuilt: {failure}")
    except KeyboardInterrupt:
        sys.exit("\nStopped: the views are as they were.")


if __name__ == "__main__":
    main()
