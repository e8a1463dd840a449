"""JSON Schema of the rules between the fields of an observer's configuration.

Some rules cannot be stated: the filter must be a Jinja expression, the host of a webhook must be allowed, and the
installation must have the channel.
"""

from chalicelib.domain.json_schema import JsonSchema, with_members
from chalicelib.domain.vocabularies.job.events import EVENT_NAMES

MAX_URLS = 20
"""Of an Apprise observer."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = rf"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@{_LABEL}(?:\.{_LABEL})+"
MAIL_ADDRESSES_PATTERN = rf"^[ \t]*{_ADDRESS}[ \t]*(?:,[ \t]*{_ADDRESS}[ \t]*)*$"
_USERS_PATTERN = r"[^, \t]"
_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
WEBHOOK_PATTERN = rf"^https://[A-Za-z0-9.-]+(?::(?:{_PORT}))?/[!-~]*$"
ANY_WEBHOOK_PATTERN = rf"^https?://[A-Za-z0-9.-]+(?::(?:{_PORT}))?/[!-\[\]-~]*$"
_SIX_BITS = "[A-Za-z0-9+/]"
SECRET_PATTERN = (
    rf"^(?:\*{{8}}|whsec_(?:(?:{_SIX_BITS}{{4}}){{8,20}}(?:{_SIX_BITS}{{4}}|{_SIX_BITS}{{2}}==|{_SIX_BITS}{{3}}=)?"
    rf"|(?:{_SIX_BITS}{{4}}){{21}}{_SIX_BITS}{{2}}==))$"
)
"""A mask, or a key of 24 to 64 bytes in base64."""
BUS_PATTERN = r"^(?:[A-Za-z0-9._/-]{1,256}|arn:[a-z-]+:events:[a-z0-9-]+:[0-9]{12}:event-bus/[A-Za-z0-9._/-]{1,256})$"
_EVENT = rf"\s*(?:{'|'.join(('all', *EVENT_NAMES))})?\s*"
_EVENTS_PATTERN = rf"^{_EVENT}(?:,{_EVENT})*$"
_NODES_PATTERN = r"^[^?*/]*$"


def _for_channel(channel: str, rule: JsonSchema) -> JsonSchema:
    """Configurations of this channel that obey the rule."""
    properties = {"channel": {"const": channel}, **rule.get("properties", {})}
    return {**rule, "properties": properties, "required": ["channel", *rule.get("required", [])]}


def _config(optional: JsonSchema | None = None, /, **patterns: str) -> JsonSchema:
    """Configurations whose `config` has these members, with text that matches the patterns, and perhaps others."""
    members = {name: {"type": "string", "pattern": pattern} for name, pattern in patterns.items()}
    config = {"type": "object", "properties": {**members, **(optional or {})}, "required": list(members)}
    return {"properties": {"config": config}, "required": ["config"]}


_URLS: JsonSchema = {
    "oneOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_URLS},
    ]
}
_IS_PRIVATE: JsonSchema = {"properties": {"scope": {"const": "private"}}, "required": ["scope"]}
_HAS_RECIPIENTS: JsonSchema = {"properties": {"config": {"required": ["to"]}}, "required": ["config"]}

CONFIGURATION_SCHEMA: JsonSchema = {
    "allOf": [
        {"not": {**with_members("types"), "anyOf": [with_members("events"), with_members("nodes")]}},
        {"anyOf": [_IS_PRIVATE, {"not": with_members("user")}]},
        {"properties": {"events": {"pattern": _EVENTS_PATTERN}, "nodes": {"pattern": _NODES_PATTERN}}},
        {
            "anyOf": [
                _for_channel("mail", _config(**{"from": MAIL_ADDRESSES_PATTERN, "to": MAIL_ADDRESSES_PATTERN})),
                _for_channel("slack", _config(url=WEBHOOK_PATTERN)),
                _for_channel(
                    "webhook",
                    _config({"secret": {"type": "string", "pattern": SECRET_PATTERN}}, url=ANY_WEBHOOK_PATTERN),
                ),
                _for_channel(
                    "apprise",
                    {
                        "properties": {"config": {"required": ["urls"], "properties": {"urls": _URLS}}},
                        "required": ["config"],
                    },
                ),
                _for_channel("eventbridge", _config(bus=BUS_PATTERN)),
                _for_channel("app", {**_IS_PRIVATE, "not": _HAS_RECIPIENTS}),
                _for_channel("app", {"not": _IS_PRIVATE, **_config(to=_USERS_PATTERN)}),
            ]
        },
    ]
}
