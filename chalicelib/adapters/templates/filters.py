"""Values as messages show them; templates have these as filters."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from json import dumps
from typing import Any, Final

from markupsafe import Markup, escape


def json(value: object) -> str:
    """The value as JSON, whatever characters are in it; numbers that JSON does not know are refused."""
    return dumps(value, ensure_ascii=False, allow_nan=False)


def clip(value: object, most: int) -> str:
    """The value as text of at most so many characters; what is neither text nor number is shown as JSON."""
    text = value if isinstance(value, str) else "" if value is None else json(value)
    return text if len(text) <= most else text[: max(most - 1, 0)].rstrip() + "…"


def latest(entries: Sequence[Any], most: int, room: int) -> list[Any]:
    """The last entries, so many at most and not more than there is room for, counted in characters of JSON."""
    kept: list[Any] = []
    for entry in reversed(entries[-min(most, _MOST_ENTRIES) :]):
        room -= len(json(entry))
        if room < 0:
            break
        kept.append(entry)
    return kept[::-1]


def head(values: Mapping[str, Any], most: int) -> list[tuple[str, Any]]:
    """The first so many of some named values, as pairs."""
    return list(islice(values.items(), max(most, 0)))


def path(value: object) -> str:
    """An event's type as people write it: a/b/c."""
    return "/".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def duration(seconds: object) -> str:
    """Seconds as people say them: 1 h 2 min, 3 min 4 s, 5 s, 0.25 s; what is no number stays as it is."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return str(seconds)
    if 0 < seconds < 10:
        return f"{round(seconds, 2):g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    told = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(told[:2]) or "0 s"


def share(progress: object) -> int | None:
    """The percentage that a progress such as `3/4` or `75%` tells; None if it tells none."""
    done, _, all_ = str(progress).strip().removesuffix("%").partition("/")
    if str(progress).strip().endswith("%"):
        all_ = "100"
    if not (_is_count(done) and _is_count(all_) and int(all_)):
        return None
    return min(100 * int(done) // int(all_), 100)


def lines(text: str) -> Markup:
    """The text in HTML, line under line, indented as it is."""
    return Markup("<br>").join(escape(text).replace("  ", Markup("&nbsp; ")).splitlines())


def slack(value: object) -> str:
    """The value as Slack shows it, and nothing in it that Slack would take for a link, a mention or a channel."""
    text = value if isinstance(value, str) else clip(value, _LONGEST_SLACK)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "tojson": json,
    "clip": clip,
    "latest": latest,
    "head": head,
    "path": path,
    "duration": duration,
    "share": share,
    "lines": lines,
    "slack": slack,
}
_MOST_ENTRIES = 1000
_LONGEST_SLACK = 3000


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
