"""Path queries: select objects by path (JobScheduler's PathQuery)."""

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from chalicelib.domain.json_schema import with_members
from chalicelib.domain.model import Model

MAX_PATHS = 1_000

_PATH = r"(?:[^*|]*|(?:[^*|]*/)?\*)"
PATH_PATTERN = rf"^/{_PATH}$"
URL_PATHS_PATTERN = rf"^{_PATH}(?:\|{_PATH})*$"
"""As `PathQuery.from_uri` accepts it: paths separated by `|`, each with or without its first slash."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """`/a/b` matches that object, `/a/` everything below the folder, `/a/*` its direct children, `/` everything."""

    text: str

    def matches(self, path: str) -> bool:
        folder = self.folder
        if folder is None:
            return path == self.text
        return path.startswith(folder) and path != folder and not (self.is_flat and "/" in path[len(folder) :])

    @property
    def folder(self) -> str | None:
        """The folder with its final slash. None if the pattern is a single path."""
        if self.is_flat:
            return self.text[:-1]
        return self.text if self.text.endswith("/") else None

    @property
    def is_flat(self) -> bool:
        """Whether the pattern matches only direct children of the folder."""
        return self.text.endswith("/*")


def parse_pattern(text: str) -> PathPattern:
    """Raises `ValueError` if the text is not a valid pattern."""
    if not text.startswith("/"):
        raise ValueError(f"a path must begin with '/': '{text[:80]}'")
    if "|" in text:
        raise ValueError(f"'|' separates paths only in a URL; list the paths separately: '{text[:80]}'")
    if "*" in text.removesuffix("/*"):
        raise ValueError(f"'*' is only allowed at the end of a path, as in '/folder/*': '{text[:80]}'")
    return PathPattern(text)


@dataclass(frozen=True, slots=True)
class PathQuery:
    """Matches objects that match at least one of the patterns."""

    patterns: tuple[PathPattern, ...]

    def matches(self, path: str) -> bool:
        return any(pattern.matches(path) for pattern in self.patterns)

    @property
    def matches_everything(self) -> bool:
        return any(pattern.text == "/" for pattern in self.patterns)

    @property
    def single_path(self) -> str | None:
        """The path of the query if it consists of exactly one path that is not a folder."""
        return self.patterns[0].text if len(self.patterns) == 1 and self.patterns[0].folder is None else None

    @classmethod
    def parse(cls, *texts: str) -> Self:
        """Raises `ValueError` if a pattern is not valid or there are too many."""
        if len(texts) > MAX_PATHS:
            raise ValueError(f"a path query may have at most {MAX_PATHS} paths")
        return cls(tuple(parse_pattern(text) for text in texts))

    @classmethod
    def from_uri(cls, path: str) -> Self:
        """Parse the path of a URL, with `|` between alternatives. The empty path matches everything."""
        alternatives = path.split("|", MAX_PATHS)
        return cls.parse(*(text if text.startswith("/") else f"/{text}" for text in alternatives))


class PathQueryJson(Model):
    """The body of a path query: `{}`, `{"path": …}` or `{"paths": […]}`."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": with_members("path", "paths"),
            "allOf": [
                {
                    "properties": {
                        "path": {"pattern": URL_PATHS_PATTERN},
                        "paths": {"items": {"pattern": PATH_PATTERN}},
                    }
                }
            ],
        }
    )

    path: str | None = None
    paths: Annotated[tuple[str, ...], Field(fail_fast=True, min_length=1, max_length=MAX_PATHS)] | None = None

    @model_validator(mode="after")
    def _validate_one_given(self) -> Self:
        if self.path is not None and self.paths is not None:
            raise ValueError("give either path or paths")
        self.query()
        return self

    def query(self) -> PathQuery:
        if self.paths is not None:
            return PathQuery.parse(*self.paths)
        return PathQuery.from_uri(self.path if self.path is not None else "/")
