"""Fails if our prose uses the patterns that the style forbids. `python -m infra.tools.prose_check PATH…` lists them."""

import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

MAX_PER_1000_WORDS = 0.5
MARKERS = {
    "whoever, who as subject": r"\bwhoever\b|(?:^|[.;:,(\"'#]) *who\b",
    "somebody, nobody": r"\b(?:somebody|nobody|everybody)\b",
    "a what-clause as a noun": r"(?:^|[.;:,(\"'#]|\b(?:of|to|from|by|with|for|and|or|but|than|as|on|in|all)) *what\b",
    "so many, so long, so often": r"\bso (?:many|long|often|much|few)\b",
    "is none, is no": r"\b(?:is|are|was|were) (?:none\b(?!`)|no\b(?! longer))",
    "told, tells": r"\b(?:told|tells|tell)\b",
    "by itself, of its own": r"\b(?:by (?:itself|themselves)|of (?:its|their) own)\b",
}
EXCEPTIONS = {"infra/tools/prose_check.py"}
SUFFIXES = {".py", ".md", ".js", ".html", ".j2", ".yaml", ".sh", ".txt"}


def prose(path: Path) -> Iterator[str]:
    """Comments, strings and test names of Python modules; the whole text of other files."""
    if path.suffix != ".py":
        yield path.read_text()
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string
        elif token.string.startswith("test_"):
            yield token.string.replace("_", " ")


def main() -> int:
    names = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split()  # noqa: S607
    paths = [Path(name) for name in names if Path(name).suffix in SUFFIXES and name not in EXCEPTIONS]
    counts: Counter[str] = Counter(dict.fromkeys(MARKERS, 0))
    words = 0
    for path in filter(Path.exists, paths):
        is_shown = str(path).startswith(tuple(sys.argv[1:] or ["/"]))
        for text in prose(path):
            words += len(re.findall(r"[A-Za-z]+", text))
            for marker, pattern in MARKERS.items():
                for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE):
                    counts[marker] += 1
                    if is_shown:
                        context = text[max(0, match.start() - 40) : match.end() + 40].replace("\n", " ")
                        sys.stdout.write(f"{path}: {marker}: {context}\n")
    rates = {marker: 1000 * count / words for marker, count in counts.items()}
    for marker, rate in rates.items():
        sys.stdout.write(f"{marker:28} {counts[marker]:5} = {rate:.2f} per 1000 words, at most {MAX_PER_1000_WORDS}\n")
    return int(any(rate > MAX_PER_1000_WORDS for rate in rates.values()))


if __name__ == "__main__":
    sys.exit(main())
