"""Checks that prose stays plain English: `python -m infra.tools.prose_check`. STYLE: name the actor, one claim a sentence."""

import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LIMIT_PER_1000_WORDS = 0.5
MARKERS = {
    "whoever, who as subject": r"\bwhoever\b|(?:^|[.;:,(\"'#]) *who\b",
    "somebody, nobody": r"\b(?:somebody|nobody|everybody)\b",
    "a what-clause as a noun": r"(?:^|[.;:,(\"'#]|\b(?:of|to|from|by|with|for|and|or|but|than|as|after|on|in|is|all)) *what\b",
    "so many, so long, so often": r"\bso (?:many|long|often|much|few)\b",
    "is none, is no": r"\b(?:is|are|was|were) (?:none\b(?!`)|no\b(?! longer))",
    "told, tells": r"\b(?:told|tells|tell)\b",
    "by itself, of its own": r"\b(?:by (?:itself|themselves)|of (?:its|their) own)\b",
}
ALLOWED = {"infra/tools/prose_check.py", "LICENSE"}
EXTENSIONS = {".py", ".md", ".js", ".html", ".j2", ".yaml", ".sh", ".txt"}


def prose(path: Path) -> Iterator[str]:
    """The text that people read: of Python the comments, strings and test names, of other files all of it."""
    if path.suffix != ".py":
        yield path.read_text()
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string
        elif token.string.startswith("test_"):
            yield token.string.replace("_", " ")


def main() -> int:
    names = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")  # noqa: S607
    paths = [Path(name) for name in names if Path(name).suffix in EXTENSIONS and name not in ALLOWED]
    counts: Counter[str] = Counter()
    words, shown = 0, sys.argv[1:]
    for path in paths:
        for text in prose(path):
            words += len(re.findall(r"[A-Za-z]+", text))
            for marker, pattern in MARKERS.items():
                matches = list(re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE))
                counts[marker] += len(matches)
                if any(str(path).startswith(prefix) for prefix in shown):
                    for match in matches:
                        around = text[max(0, match.start() - 40) : match.end() + 40].replace("\n", " ")
                        sys.stdout.write(f"{path}: {marker}: …{around}…\n")
    rates = {marker: 1000 * count / words for marker, count in counts.items()}
    for marker, rate in sorted(rates.items()):
        sys.stdout.write(f"{marker:30} {counts[marker]:5} in {words} words: {rate:.2f} per 1000\n")
    return int(any(rate > LIMIT_PER_1000_WORDS for rate in rates.values()))


if __name__ == "__main__":
    sys.exit(main())
