"""Path queries: which objects of a tree are meant (JobScheduler's PathQuery)."""

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field, model_validator

from chalicelib.domain.model import Model

MOST_PATHS = 1_000


@dataclass(frozen=True, slots=True)
class PathPattern:
    """`/a/b` is that object, `/a/` all in and below the folder, `/a/*` all directly in it, `/` everything."""

    text: str

    def matches(self, path: str) -> bool:
        """Tell whether the object at `path` is meant."""
        folder = self.folder
        if folder is None:
            return path == self.text
        return path.startswith(folder) and path != folder and not (self.is_flat and "/" in path[len(folder) :])

    @property
    def folder(self) -> str | None:
        """The folder with its slash, if the pattern means one."""
        if self.is_flat:
            return self.text[:-1]
        return self.text if self.text.endswith("/") else None

    @property
    def is_flat(self) -> bool:
        """Whether what lies deeper than the folder is left out."""
        return self.text.endswith("/*")


def pattern(text: str) -> PathPattern:
    """The pattern written as `text`."""
    if not text.startswith("/"):
        raise ValueError(f"a path begins with '/', unlike '{text[:80]}'")
    if "|" in text:
        raise ValueError(f"'|' separates paths in a URL only; give each one by itself, unlike '{text[:80]}'")
    if "*" in text.removesuffix("/*"):
        raise ValueError(f"in a path '*' stands alone at the end, as in '/folder/*', unlike in '{text[:80]}'")
    return PathPattern(text)


@dataclass(frozen=True, slots=True)
class PathQuery:
    """Objects that one of the patterns means."""

    patterns: tuple[PathPattern, ...]

    def matches(self, path: str) -> bool:
        """Tell whether the object at `path` is meant."""
        return any(one.matches(path) for one in self.patterns)

    @property
    def is_everything(self) -> bool:
        """Whether no object can fail."""
        return any(one.text == "/" for one in self.patterns)

    @property
    def single(self) -> str | None:
        """The one path that the query names, if it names one and no folder."""
        return self.patterns[0].text if len(self.patterns) == 1 and self.patterns[0].folder is None else None

    @classmethod
    def of(cls, *texts: str) -> Self:
        """The query for these patterns."""
        if len(texts) > MOST_PATHS:
            raise ValueError(f"at most {MOST_PATHS} paths may be asked for at once")
        return cls(tuple(pattern(text) for text in texts))

    @classmethod
    def from_uri(cls, path: str) -> Self:
        """The query that a URL's path makes: alternatives are separated by `|`; no path means everything."""
        alternatives = path.split("|", MOST_PATHS)
        return cls.of(*(one if one.startswith("/") else f"/{one}" for one in alternatives))


class PathQueryJson(Model):
    """The body of a path query: `{}`, `{"path": …}` or `{"paths": […]}`."""

    path: str | None = None
    paths: Annotated[tuple[str, ...], Field(fail_fast=True, min_length=1, max_length=MOST_PATHS)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.path is not None and self.paths is not None:
            raise ValueError("give either path or paths")
        self.query()
        return self

    def query(self) -> PathQuery:
        """What it means."""
        if self.paths is not None:
            return PathQuery.of(*self.paths)
        return PathQuery.from_uri(self.path if self.path is not None else "/")
