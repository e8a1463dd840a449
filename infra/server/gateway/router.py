"""Routes: from a path to the pattern that matches it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

_PARAMETER = re.compile(r"\{(\w+)(\+?)\}")


@dataclass(frozen=True, slots=True)
class Found:
    """The pattern that matches a path, and what its parameters stand for."""

    pattern: str
    parameters: dict[str, str]


class Routes:
    """All patterns; one without parameters goes first, `{name+}` takes the rest of the path."""

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = sorted(patterns, key=lambda pattern: (pattern.count("{"), pattern.count("+}")))
        self._exact = {pattern: Found(pattern, {}) for pattern in patterns if "{" not in pattern}
        self._others = [(pattern, _compiled(pattern)) for pattern in patterns if "{" in pattern]

    def find(self, path: str) -> Found | None:
        """The pattern for `path`; parameters are percent-decoded."""
        exact = self._exact.get(path)
        if exact is not None:
            return exact
        for pattern, expression in self._others:
            if match := expression.fullmatch(path):
                return Found(pattern, {name: unquote(value) for name, value in match.groupdict().items()})
        return self._without_rest(path[:-1]) if path.endswith("/") else None

    def _without_rest(self, path: str) -> Found | None:
        """The pattern for a path whose rest, which another pattern would take, is empty."""
        found = self.find(path) if path and not path.endswith("/") else None
        return found if found and f"{found.pattern}/{{path+}}" in dict(self._others) else None


def _compiled(pattern: str) -> re.Pattern[str]:
    parts, end = [], 0
    for parameter in _PARAMETER.finditer(pattern):
        name, greedy = parameter.groups()
        parts += [re.escape(pattern[end : parameter.start()]), f"(?P<{name}>{'.+' if greedy else '[^/]+'})"]
        end = parameter.end()
    return re.compile("".join([*parts, re.escape(pattern[end:])]))
