"""`make rebuild STAGE=…`: rebuild the views of a stage from its log, also while the stage is in use."""

import argparse
import sys

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.adapters.aws.protocol import ServiceError
from chalicelib.domain.errors import AnnalsError
from infra.deploy.build.package import STAGES
from infra.deploy.stack.stage import NotDeployed, Stage
from infra.tools.view_rebuild import rebuild_all


def main() -> None:
    parser = argparse.ArgumentParser(description="Rebuild the views of a stage from its log.")
    parser.add_argument("--stage", choices=STAGES, required=True)
    args = parser.parse_args()
    try:
        rebuild_all(Stage.from_stack(args.stage).components())
    except (NotDeployed, AnnalsError, ServiceError, ClientError, BotoCoreError) as error:
        sys.exit(f"Not rebuilt: {error}")
    except KeyboardInterrupt:
        sys.exit("\nStopped. The old views stay in use.")


if __name__ == "__main__":
    main()
