"""Messages from templates: `<channel>/<event>.<part>.j2`, and the filters of observers, both in a sandbox.

A template is looked for first in the directory of the installation's own templates, then in the package, each for
itself: who wants another mail for finished jobs writes `mail/finish.html.j2` and nothing else. An edited file is seen
with the next message. An event without a template of its own takes `default`.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from traceback import walk_tb
from typing import Any

from jinja2 import BaseLoader, Environment, TemplateError, TemplateNotFound, TemplateSyntaxError
from jinja2.environment import TemplateExpression
from jinja2.loaders import split_template_path
from pydantic_core import from_json

from chalicelib.adapters.templates.limits import Limits, TooMuch, amount
from chalicelib.adapters.templates.sandbox import FilterSandbox, Sandbox
from chalicelib.adapters.templates.text import one_line
from chalicelib.domain.errors import Undeliverable

PACKAGE = Path(__file__).parent
LONGEST_FILTER = 2000
"""Characters of an observer's filter."""
_EVENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
_LONGEST_REASON = 300


class Templates:
    """All templates, each compiled when it is first needed. Threads may share it."""

    def __init__(self, override: Path | None = None, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._files = _Files(override)
        options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "cache_size": 1000}
        self._sandbox = Sandbox(self._limits, loader=self._files, autoescape=_is_html, **options)
        self._filters = FilterSandbox(self._limits)
        self._compiled = lru_cache(maxsize=1000)(self._compile_expression)

    def render(self, channel: str, name: str, part: str, scope: Mapping[str, Any]) -> str:
        """The part of the channel's message about an event called `name`; raises `Undeliverable`.

        A subject is one line, JSON is JSON, and everything can be encoded.
        """
        path = f"{channel}/{name}.{part}.j2"
        try:
            if not (_EVENT_NAME.fullmatch(name) and self._files.finds(path)):
                path = f"{channel}/default.{part}.j2"
            with self._sandbox.paying():
                text = self._sandbox.get_template(path).render(scope)
            return self._finished(part, text)
        except Exception as failure:
            raise Undeliverable(f"template {self._told(failure, path)}") from failure

    def expression(self, text: str, scope: Mapping[str, Any]) -> bool:
        """Whether an observer's filter is true; a field that an event does not have makes it no error."""
        try:
            with self._filters.paying():
                return bool(self._compiled(text)(scope))
        except Exception as failure:
            raise Undeliverable(f"the filter: {_said(failure)}") from failure

    def check_expression(self, text: str) -> None:
        """Raise `ValueError` if this cannot be an observer's filter; its text says why."""
        try:
            self._compiled(text)
        except Exception as failure:
            raise ValueError(
                f"a filter is an expression such as event.event != 'progress': {_said(failure)}"
            ) from failure

    def _finished(self, part: str, text: str) -> str:
        encoded = text.encode(errors="replace")
        if len(encoded) > self._limits.output:
            raise TooMuch(f"makes a message larger than {amount(self._limits.output)}")
        text = encoded.decode()
        if part == "json":
            _check_json(text)
        return " ".join(text.split()) if part == "subject" else text.strip() + "\n"

    def _compile_expression(self, text: str) -> TemplateExpression:
        if len(text) > LONGEST_FILTER:
            raise ValueError(f"it is longer than {LONGEST_FILTER} characters")
        return self._filters.compile_expression(text, undefined_to_none=False)

    def _told(self, failure: Exception, path: str) -> str:
        """One sentence: which template, which line, what is wrong."""
        if isinstance(failure, TemplateSyntaxError):
            return f"{failure.name or path}, line {failure.lineno}: {_said(failure)}"
        places = [(self._files.name(frame.f_code.co_filename), line) for frame, line in walk_tb(failure.__traceback__)]
        found = [f"{name}, line {line}" for name, line in places if name]
        return f"{found[-1] if found else path}: {_said(failure)}"


class _Files(BaseLoader):
    """Template files: those of the installation before those of the package, which do not change."""

    def __init__(self, override: Path | None) -> None:
        self._override = override

    def get_source(self, _environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        stamp = self._stamp(template)
        root = PACKAGE if stamp is None or self._override is None else self._override
        file = root.joinpath(*split_template_path(template))
        try:
            text = file.read_text("utf-8")
        except FileNotFoundError as failure:
            raise TemplateNotFound(template) from failure
        return text, str(file), lambda: self._stamp(template) == stamp

    def finds(self, template: str) -> bool:
        """Whether there is such a template."""
        return self._stamp(template) is not None or template in _packaged()

    def name(self, file: str) -> str | None:
        """What a file's template is called; None if it is none."""
        for root in filter(None, (self._override, PACKAGE)):
            if Path(file).is_relative_to(root):
                return Path(file).relative_to(root).as_posix()
        return None

    def _stamp(self, template: str) -> tuple[int, int] | None:
        """When the installation's own file was changed; None if there is none."""
        if self._override is None:
            return None
        try:
            found = self._override.joinpath(*split_template_path(template)).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_mtime_ns, found.st_size


@cache
def _packaged() -> frozenset[str]:
    """The names of the package's templates."""
    return frozenset(file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.j2"))


def _is_html(template: str | None) -> bool:
    return template is not None and template.endswith(".html.j2")


def _check_json(text: str) -> None:
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError as failure:
        raise ValueError(f"what it makes is not JSON: {failure}") from failure


def _said(failure: Exception) -> str:
    """What is wrong, as people say it, in one line: it may quote an event."""
    return one_line(_words(failure)[:_LONGEST_REASON], _LONGEST_REASON)


def _words(failure: Exception) -> str:
    match failure:
        case TooMuch():
            return f"it {failure}"
        case RecursionError():
            return "it calls itself too deeply"
        case TemplateNotFound():
            return f"there is no template '{failure.message}'"
        case TemplateError():
            return str(failure.message)
        case _:
            return str(failure) or type(failure).__name__
