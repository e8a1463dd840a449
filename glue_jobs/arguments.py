"""Parses command-line arguments as Glue passes them."""

import argparse
from collections.abc import Mapping, Sequence


def parse_arguments(
    argv: Sequence[str], description: str, required: Mapping[str, str], **optional: str
) -> argparse.Namespace:
    """Parse `--name value` arguments, with help texts by name. Ignores arguments that Glue adds."""
    # Glue's arguments may start like ours, so abbreviations must not match.
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    for name, help_text in required.items():
        parser.add_argument(f"--{name}", required=True, help=help_text)
    for name, help_text in optional.items():
        parser.add_argument(f"--{name}", default="", help=help_text)
    namespace, _ = parser.parse_known_args(argv)
    return namespace
