"""Jinja filters that format values in messages."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from json import dumps
from typing import Any, Final

from markupsafe import Markup, escape

from chalicelib.adapters.templates.text import one_line

_MAX_ENTRIES = 1000
_MAX_LINE_CHARS = 20_000
"""How much of a text is searched for its first line."""
_MAX_SLACK_CHARS = 3000


def json(value: object) -> str:
    """JSON without escapes of non-ASCII characters. Raises `ValueError` for NaN and infinity."""
    return dumps(value, ensure_ascii=False, allow_nan=False)


def clip(value: object, max_chars: int) -> str:
    """The value as text, truncated with "…". Values other than text and null are formatted as JSON."""
    text = value if isinstance(value, str) else "" if value is None else json(value)
    return text if len(text) <= max_chars else text[: max(max_chars - 1, 0)].rstrip() + "…"


def latest(entries: Sequence[Any], max_entries: int, max_chars: int) -> list[Any]:
    """The last entries, limited by their number and by the total length of their JSON."""
    kept: list[Any] = []
    for entry in reversed(entries[-min(max_entries, _MAX_ENTRIES) :]):
        max_chars -= len(json(entry))
        if max_chars < 0:
            break
        kept.append(entry)
    return kept[::-1]


def head(values: Mapping[str, Any], max_items: int) -> list[tuple[str, Any]]:
    """The first items of a mapping as pairs."""
    return list(islice(values.items(), max(max_items, 0)))


def path(value: object) -> str:
    """An event type as a/b/c."""
    return "/".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def duration(seconds: object) -> str:
    """Seconds as 1 h 2 min, 3 min 4 s, 5 s or 0.25 s. Other values than numbers are returned as text."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return str(seconds)
    if 0 < seconds < 10:
        return f"{round(seconds, 2):g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    parts = [f"{number} {unit}" for number, unit in units if number]
    return " ".join(parts[:2]) or "0 s"


def first_line(text: object, max_chars: int) -> str:
    """The first line with text, truncated. Of a Python traceback, the last one, which names the error."""
    found = [line for line in clip(text, _MAX_LINE_CHARS).splitlines() if one_line(line, 1)]
    if not found:
        return ""
    return one_line(found[-1] if found[0].startswith("Traceback (most recent call last)") else found[0], max_chars)


def usual_duration(job_type: Mapping[str, Any]) -> str:
    """How long the runs of a job type take, such as `3 min 5 s, 90 % at most 4 min`. Empty if it is not known."""
    if "usual_s" not in job_type:
        return ""
    return f"{duration(job_type['usual_s'])}, 90 % at most {duration(job_type['slow_s'])}"


def share(progress: object) -> int | None:
    """The percentage of a progress such as `3/4` or `75%`, or None if it has another form."""
    done, _, total = str(progress).strip().removesuffix("%").partition("/")
    if str(progress).strip().endswith("%"):
        total = "100"
    if not (_is_count(done) and _is_count(total) and int(total)):
        return None
    return min(100 * int(done) // int(total), 100)


def lines(text: str) -> Markup:
    """The text as HTML with line breaks and indentation preserved."""
    return Markup("<br>").join(escape(text).replace("  ", Markup("&nbsp; ")).splitlines())


def slack(value: object) -> str:
    """The value as Slack text, escaped so that it cannot contain links, mentions or channels."""
    text = value if isinstance(value, str) else clip(value, _MAX_SLACK_CHARS)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "tojson": json,
    "clip": clip,
    "latest": latest,
    "head": head,
    "path": path,
    "duration": duration,
    "first_line": first_line,
    "usual_duration": usual_duration,
    "share": share,
    "lines": lines,
    "slack": slack,
}


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
