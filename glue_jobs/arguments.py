"""Arguments as Glue passes them: `--name value`, with some of its own among them."""

import argparse
from collections.abc import Mapping, Sequence


def arguments(argv: Sequence[str], description: str, named: Mapping[str, str], **optional: str) -> argparse.Namespace:
    """The arguments that were `named`, each with what it means; those of Glue itself are passed over."""
    # Glue's own may begin like ours: an abbreviation must not be taken for one.
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    for name, meaning in named.items():
        parser.add_argument(f"--{name}", required=True, help=meaning)
    for name, meaning in optional.items():
        parser.add_argument(f"--{name}", default="", help=meaning)
    found, _ = parser.parse_known_args(argv)
    return found
