"""JSON Schema of the rules between the fields of an observer's configuration.

Two rules cannot be stated: the filter must be a Jinja expression, and the host of a webhook must be allowed.
"""

from chalicelib.domain.json_schema import JsonSchema, with_members
from chalicelib.domain.vocabularies.job.events import EVENT_NAMES

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = rf"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@{_LABEL}(?:\.{_LABEL})+"
MAIL_ADDRESSES_PATTERN = rf"^[ \t]*{_ADDRESS}[ \t]*(?:,[ \t]*{_ADDRESS}[ \t]*)*$"
_USERS_PATTERN = r"[^, \t]"
_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
WEBHOOK_PATTERN = rf"^https://[A-Za-z0-9.-]+(?::(?:{_PORT}))?/[!-~]*$"
_EVENT = rf"\s*(?:{'|'.join(('all', *EVENT_NAMES))})?\s*"
_EVENTS_PATTERN = rf"^{_EVENT}(?:,{_EVENT})*$"
_NODES_PATTERN = r"^[^?*/]*$"


def _for_channel(channel: str, then: JsonSchema) -> JsonSchema:
    return {"if": {"properties": {"channel": {"const": channel}}, "required": ["channel"]}, "then": then}


def _config(**patterns: str) -> JsonSchema:
    """Configurations whose `config` has these members, with text that matches the patterns."""
    members = {name: {"type": "string", "pattern": pattern} for name, pattern in patterns.items()}
    config = {"type": "object", "properties": members, "required": list(members)}
    return {"properties": {"config": config}, "required": ["config"]}


_IS_PRIVATE: JsonSchema = {"properties": {"scope": {"const": "private"}}, "required": ["scope"]}
_HAS_RECIPIENTS: JsonSchema = {"properties": {"config": {"required": ["to"]}}, "required": ["config"]}

CONFIGURATION_SCHEMA: JsonSchema = {
    "allOf": [
        {"not": {**with_members("types"), "anyOf": [with_members("events"), with_members("nodes")]}},
        {"anyOf": [_IS_PRIVATE, {"not": with_members("user")}]},
        {"properties": {"events": {"pattern": _EVENTS_PATTERN}, "nodes": {"pattern": _NODES_PATTERN}}},
        _for_channel("mail", _config(**{"from": MAIL_ADDRESSES_PATTERN, "to": MAIL_ADDRESSES_PATTERN})),
        _for_channel("slack", _config(url=WEBHOOK_PATTERN)),
        _for_channel(
            "app",
            {"anyOf": [{**_IS_PRIVATE, "not": _HAS_RECIPIENTS}, {"not": _IS_PRIVATE, **_config(to=_USERS_PATTERN)}]},
        ),
    ]
}
