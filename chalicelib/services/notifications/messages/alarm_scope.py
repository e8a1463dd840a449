"""The variables of templates about alarms, and about notifications that failed.

Any publisher can write such an event, so no member of its payload is taken for granted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.observer import NOTIFICATION_FAILED
from chalicelib.services.notifications.messages.times import MessageTimes, parse_time

ALARM_KINDS = ("missed", "late", "overdue", "early", "recovered")
FAILED_TEMPLATE = "notificationFailed"

_TIMES = {
    "slot": "slot",
    "due": "due",
    "startedAt": "started",
    "previousStartAt": "previous",
    "silentSince": "silent_since",
    "since": "since",
    "finishedAt": "finished",
}
"""Members of the payload that are times, and the variables for them."""

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

Scope = dict[str, Any]
Fact = list[Any]
"""A name and a value."""


def template_of(event: Event) -> str | None:
    """The name of the templates for an alarm or a notification that failed. None for other events."""
    payload, event_type = event.fields.payload, event.fields.type
    if payload is None or payload["type"] != "json" or not isinstance(payload["data"], dict):
        return None
    if event_type[:2] == NOTIFICATION_FAILED:
        return FAILED_TEMPLATE
    return event_type[1] if len(event_type) == 4 and event_type[0] == "job" and event_type[1] in ALARM_KINDS else None


def alarm_scope(event: Event, times: MessageTimes) -> Scope:
    """The variables for an event that has such templates. `facts` are the lines of the body: names and values."""
    data = event.fields.payload["data"]
    if event.fields.type[:2] == NOTIFICATION_FAILED:
        return _failure_scope(event, data)
    scope: Scope = {"kind": event.fields.type[1], "time": event.at_us // 1_000_000}
    scope |= {name: data[name] for name in ("expectation", "type", "node", "key", "run") if _is_text(data.get(name))}
    if _is_text(data.get("job")):
        scope["id"] = data["job"]
    scope["label"] = scope.get("type") or scope.get("key") or scope.get("expectation") or "job"
    scope |= _time_variables(data, event.at_us, times)
    scope |= _duration_variables(data, event.at_us)
    scope["reason"] = "silence" if data.get("reason") == "silence" else "duration"
    alarms = data.get("alarms")
    scope["alarms"] = [str(alarm) for alarm in alarms[:9]] if isinstance(alarms, list) else []
    return {**scope, "facts": _alarm_facts(scope)}


def alarm_place(event: Event) -> str:
    """The page of the console about the event: the job, the jobs of the type, or the observer."""
    data = event.fields.payload["data"]
    if event.fields.type[:2] == NOTIFICATION_FAILED:
        return f"observers/{_quoted(data.get('observer'))}"
    if _is_text(data.get("job")):
        return f"objects/job/{_quoted(data['job'])}"
    return f"objects/job?search={_quoted(data.get('type') or '')}"


def _time_variables(data: Mapping[str, Any], event_us: int, times: MessageTimes) -> Scope:
    """Each time as text, and as `…_clock` for subjects. `zone` is the name of the zone."""
    scope: Scope = {"zone": times.zone_name(event_us)}
    for member, name in _TIMES.items():
        time_us = parse_time(data.get(member))
        if time_us is not None:
            scope |= {name: times.text(time_us), f"{name}_clock": times.clock(time_us, event_us)}
    return scope


def _duration_variables(data: Mapping[str, Any], event_us: int) -> Scope:
    """Durations in seconds."""
    started_us = parse_time(data.get("startedAt"))
    late_s = data.get("lateS")
    durations = {
        "running_s": _seconds(started_us, event_us),
        "silent_s": _seconds(parse_time(data.get("silentSince")), event_us),
        "gap_s": _seconds(parse_time(data.get("previousStartAt")), started_us),
        "late_s": late_s if isinstance(late_s, int | float) and not isinstance(late_s, bool) else None,
    }
    return {name: round(value) for name, value in durations.items() if value is not None and 0 <= value < 10**9}


def _seconds(start_us: int | None, end_us: int | None) -> float | None:
    return None if start_us is None or end_us is None else (end_us - start_us) / 1_000_000


def _alarm_facts(scope: Scope) -> Sequence[Fact]:
    facts: list[Fact] = [
        ["Job type", scope.get("type")],
        ["Node", scope.get("node")],
        ["Job", scope.get("id")],
        ["Key", scope.get("key")],
        ["Expected", scope.get("slot")],
        ["Latest start", scope.get("due")],
        ["Started", scope.get("started")],
        ["Previous start", scope.get("previous")],
        ["Last event", scope.get("silent_since")],
        ["Alarms", ", ".join(scope["alarms"])],
        ["Since", scope.get("since")],
        ["Finished", scope.get("finished")],
        ["Expectation", scope.get("expectation")],
    ]
    return [fact for fact in facts if fact[1] not in (None, "")]


def _failure_scope(event: Event, data: Mapping[str, Any]) -> Scope:
    texts = {name: data.get(name) if _is_text(data.get(name)) else "" for name in ("observer", "channel", "address")}
    error = data.get("error") if isinstance(data.get("error"), str) else ""
    match data.get("event"):
        case {"server": int(server), "session": int(session), "instance": int(instance)}:
            about = f"{server}.{session}.{instance}"
        case _:
            about = ""
    facts: list[Fact] = [
        ["Observer", texts["observer"]],
        ["Channel", texts["channel"]],
        ["Address", texts["address"]],
        ["Tries", data.get("tries") if _is_text(data.get("tries")) else ""],
        ["Event", about],
    ]
    shown = [fact for fact in facts if fact[1] != ""]
    return {"kind": "failed", "time": event.at_us // 1_000_000, **texts, "error": error, "facts": shown}


def _is_text(value: object) -> bool:
    """Whether a value can be shown in one line: a text or a whole number."""
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def _quoted(value: object) -> str:
    """The value in a URL."""
    quoted = (byte.to_bytes() for byte in str(value)[:400].encode(errors="replace"))
    return "".join(byte.decode() if byte in _UNRESERVED else f"%{byte[0]:02X}" for byte in quoted)
