"""The router: finds the route pattern that matches a path."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

_PARAMETER = re.compile(r"\{(\w+)(\+?)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """A pattern that matches a path, with the values of its parameters."""

    pattern: str
    parameters: dict[str, str]


class Router:
    """Patterns without parameters have priority. `{name+}` matches the rest of the path."""

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = sorted(patterns, key=lambda pattern: (pattern.count("{"), pattern.count("+}")))
        self._exact = {pattern: Route(pattern, {}) for pattern in patterns if "{" not in pattern}
        self._expressions = {pattern: _compile(pattern) for pattern in patterns if "{" in pattern}

    def find(self, path: str) -> Route | None:
        """The route for `path`, with percent-decoded parameters."""
        exact = self._exact.get(path)
        if exact is not None:
            return exact
        for pattern, expression in self._expressions.items():
            if match := expression.fullmatch(path):
                return Route(pattern, {name: unquote(value) for name, value in match.groupdict().items()})
        return self._find_with_empty_rest(path[:-1]) if path.endswith("/") else None

    def _find_with_empty_rest(self, path: str) -> Route | None:
        """The route for `path` if there is another one for `path` with a `{path+}` behind it."""
        route = self.find(path) if path and not path.endswith("/") else None
        return route if route and f"{route.pattern}/{{path+}}" in self._expressions else None


def _compile(pattern: str) -> re.Pattern[str]:
    parts, end = [], 0
    for parameter in _PARAMETER.finditer(pattern):
        name, greedy = parameter.groups()
        parts += [re.escape(pattern[end : parameter.start()]), f"(?P<{name}>{'.+' if greedy else '[^/]+'})"]
        end = parameter.end()
    return re.compile("".join([*parts, re.escape(pattern[end:])]))
