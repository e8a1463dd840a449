"""Translates a SAM template on standard input to plain CloudFormation on standard output.

Runs in `.venv-sam`, which has AWS's SAM translator and none of our packages.
"""

import json
import sys
from typing import Any

from samtranslator.translator.transform import transform  # type: ignore[import-not-found]


class _ManagedPolicies:
    """AWS's managed policies by name. Our template uses none."""

    def load(self) -> dict[str, str]:
        return {}


def main() -> None:
    template: dict[str, Any] = json.load(sys.stdin)
    json.dump(transform(template, {}, _ManagedPolicies()), sys.stdout)


if __name__ == "__main__":
    main()
