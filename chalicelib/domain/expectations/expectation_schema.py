"""JSON Schema of the rules between the fields of an expectation.

The syntax of cron expressions, the names of time zones and the limits of durations in ISO-8601 cannot be stated.
"""

from chalicelib.domain.json_schema import JsonSchema, with_members

_TRIGGERS = ("every", "cron", "max_duration", "max_silence", "min_interval")


def _requires(field: str, *alternatives: str) -> JsonSchema:
    """Expectations that have `field` only with one of `alternatives`."""
    return {"anyOf": [{"not": with_members(field)}, *map(with_members, alternatives)]}


EXPECTATION_SCHEMA: JsonSchema = {
    "allOf": [
        {"oneOf": [with_members("type"), with_members("key")]},
        {"not": with_members("every", "cron")},
        {"anyOf": [with_members(trigger) for trigger in _TRIGGERS]},
        _requires("node", "type"),
        _requires("time_zone", "cron"),
        _requires("grace", "every", "cron"),
    ]
}
