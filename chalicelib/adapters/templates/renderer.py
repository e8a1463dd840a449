"""Renders message templates `<channel>/<event>.<part>.j2` and evaluates the filters of observers, both in a sandbox.

Each template is looked up first in the override directory of the installation, then in this package. To change one
mail, an operator writes only `mail/finish.html.j2`. An edited file is used from the next message on. An event without
a template of its own uses `default`.
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

from chalicelib.adapters.templates.limits import LimitExceeded, Limits, format_size
from chalicelib.adapters.templates.sandbox import FilterSandbox, Sandbox
from chalicelib.adapters.templates.text import one_line
from chalicelib.domain.errors import Undeliverable

PACKAGE = Path(__file__).parent
SUFFIX = ".j2"
MAX_FILTER_CHARS = 2000
MAX_SUBJECT_CHARS = 400
_EVENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
_MAX_REASON_CHARS = 300


class TemplateRenderer:
    """Compiles each template when it is first needed. Threads may share it."""

    def __init__(self, override: Path | None = None, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._files = _TemplateFiles(override)
        options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "cache_size": 1000}
        self._sandbox = Sandbox(self._limits, loader=self._files, autoescape=_is_html, **options)
        self._filter_sandbox = FilterSandbox(self._limits)
        self._compiled_filter = lru_cache(maxsize=1000)(self._compile_filter)

    def render(self, channel: str, name: str, part: str, scope: Mapping[str, Any]) -> str:
        """Render one part of the message about an event called `name`. Raises `Undeliverable`.

        A subject is a single line, JSON is valid, and every text can be encoded as UTF-8.
        """
        path = f"{channel}/{name}.{part}{SUFFIX}"
        try:
            if not (_EVENT_NAME.fullmatch(name) and self._files.exists(path)):
                path = f"{channel}/default.{part}{SUFFIX}"
            with self._sandbox.new_budget():
                text = self._sandbox.get_template(path).render(scope)
            return self._postprocess(part, text)
        except Exception as error:
            raise Undeliverable(f"template {self._locate(error, path)}") from error

    def evaluate_filter(self, text: str, scope: Mapping[str, Any]) -> bool:
        """Whether an observer's filter matches. Raises `Undeliverable` if it fails."""
        try:
            with self._filter_sandbox.new_budget():
                return bool(self._compiled_filter(text)(scope))
        except Exception as error:
            raise Undeliverable(f"the filter: {_reason(error)}") from error

    def check_filter(self, text: str) -> None:
        """Compile a filter without evaluating it. Raises `ValueError` with the reason if it is not valid."""
        try:
            self._compiled_filter(text)
        except Exception as error:
            raise ValueError(
                f"a filter is an expression such as event.event != 'progress': {_reason(error)}"
            ) from error

    def _postprocess(self, part: str, text: str) -> str:
        encoded = text.encode(errors="replace")
        if len(encoded) > self._limits.output_bytes:
            raise LimitExceeded(f"makes a message larger than {format_size(self._limits.output_bytes)}")
        text = encoded.decode()
        if part == "json":
            _check_json(text)
        return one_line(text, MAX_SUBJECT_CHARS) if part == "subject" else text.strip() + "\n"

    def _compile_filter(self, text: str) -> TemplateExpression:
        if len(text) > MAX_FILTER_CHARS:
            raise ValueError(f"it is longer than {MAX_FILTER_CHARS} characters")
        return self._filter_sandbox.compile_expression(text, undefined_to_none=False)

    def _locate(self, error: Exception, path: str) -> str:
        """Describe the error with the template and the line where it occurred."""
        if isinstance(error, TemplateSyntaxError):
            return f"{error.name or path}, line {error.lineno}: {_reason(error)}"
        frames = [(self._files.name_of(frame.f_code.co_filename), line) for frame, line in walk_tb(error.__traceback__)]
        locations = [f"{name}, line {line}" for name, line in frames if name]
        return f"{locations[-1] if locations else path}: {_reason(error)}"


class _TemplateFiles(BaseLoader):
    """Template files: overrides first, then those of the package, which do not change."""

    def __init__(self, override: Path | None) -> None:
        self._override = override

    def get_source(self, _environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        stamp = self._override_stamp(template)
        root = PACKAGE if stamp is None or self._override is None else self._override
        file = root.joinpath(*split_template_path(template))
        try:
            text = file.read_text("utf-8")
        except FileNotFoundError as error:
            raise TemplateNotFound(template) from error
        return text, str(file), lambda: self._override_stamp(template) == stamp

    def exists(self, template: str) -> bool:
        return self._override_stamp(template) is not None or template in _packaged_templates()

    def name_of(self, file: str) -> str | None:
        """The name of the template in this file, or None if the file is not a template."""
        for root in filter(None, (self._override, PACKAGE)):
            if file.endswith(SUFFIX) and Path(file).is_relative_to(root):
                return Path(file).relative_to(root).as_posix()
        return None

    def _override_stamp(self, template: str) -> tuple[int, int] | None:
        """Modification time and size of the override, or None if there is none."""
        if self._override is None:
            return None
        try:
            status = self._override.joinpath(*split_template_path(template)).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_mtime_ns, status.st_size


@cache
def _packaged_templates() -> frozenset[str]:
    return frozenset(file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob(f"*{SUFFIX}"))


def _is_html(template: str | None) -> bool:
    return template is not None and template.endswith(f".html{SUFFIX}")


def _check_json(text: str) -> None:
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"its output is not valid JSON: {error}") from error


def _reason(error: Exception) -> str:
    """The message of an error in one line. It may quote an event."""
    return one_line(_message(error)[:_MAX_REASON_CHARS], _MAX_REASON_CHARS)


def _message(error: Exception) -> str:
    match error:
        case LimitExceeded():
            return f"it {error}"
        case RecursionError():
            return "it is nested too deeply"
        case TemplateNotFound():
            return f"there is no template '{error.message}'"
        case TemplateError():
            return str(error.message)
        case _:
            return str(error) or type(error).__name__
