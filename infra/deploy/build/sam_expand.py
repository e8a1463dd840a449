"""A template of SAM from the standard input, and what AWS would make of it to the standard output.

Run by the Python of `.venv-sam`, which has AWS's own translator and nothing of ours.
"""

import json
import sys
from typing import Any

from samtranslator.translator.transform import transform  # type: ignore[import-not-found]


class _Policies:
    """AWS's own policies by name: we use none."""

    def load(self) -> dict[str, str]:
        return {}


def main() -> None:
    """Expand."""
    template: dict[str, Any] = json.load(sys.stdin)
    json.dump(transform(template, {}, _Policies()), sys.stdout)


if __name__ == "__main__":
    main()
