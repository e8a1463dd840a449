"""What texts look like, as regular expressions that JSON Schema understands; taken from the domain that checks them."""

import re

from chalicelib.domain import durations
from chalicelib.domain.events import ids
from chalicelib.domain.notifications import observer
from chalicelib.domain.organizations import organization
from chalicelib.domain.vocabularies.scheduler import COLLECTIONS, events, return_parameter

_PATH = r"(?:[^*|]*|(?:[^*|]*/)?\*)"
"""One path of a path query: `*` stands alone at its end."""


def _ecma(*forms: re.Pattern[str] | str) -> str:
    """One expression for the whole text, without Python's names of groups; digits are those of ASCII."""
    texts = [form if isinstance(form, str) else form.pattern for form in forms]
    text = re.sub(r"\(\?P<\w+>", "(?:", f"^(?:{'|'.join(texts)})$")
    return text.replace(r"[\d", "[0-9").replace(r"\d", "[0-9]")


DURATION = _ecma(durations._PLAIN, durations._UNITS, durations._ISO, "infinite")
SHORTER_THAN_10_MS = r"^(?!infinite)[^1-9]*(?:\.00[0-9]*)?[^1-9]*$"
ID = _ecma(ids._ID)
ORGANIZATION = _ecma(organization._NAME)
OBSERVER = _ecma(observer._NAME)
TYPE_PATTERN = r"^(?:(?:\?|[^?*/]*)/)*(?:\?|\*|[^?*/]*)$"
SUBTYPE_PATTERN = r"^(?:\?|[^?*/]*)$"
PATHS_IN_URL = rf"^{_PATH}(?:\|{_PATH})*$"
PATH_IN_BODY = r"^/(?:[^*|]*|(?:[^*|]*/)?\*)$"
IDEMPOTENCY_KEY = r"^[!-~](?:[ -~]{0,254}[!-~])?$"
BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
ORDER_KEY = r"^[^,]{2,},[\s\S]"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = rf"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@{_LABEL}(?:\.{_LABEL})+"
ADDRESSES = rf"^[ \t]*{_ADDRESS}[ \t]*(?:,[ \t]*{_ADDRESS}[ \t]*)*$"
USERS = r"[^, \t]"
_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
WEBHOOK = rf"^https://[A-Za-z0-9.-]+(?::(?:{_PORT}))?/[!-~]*$"

_FAMILIES = [name for family, (_, names) in events.FAMILIES.items() for name in (family, *names)]
_EVENT = rf"\s*(?:{'|'.join(['Event', *_FAMILIES, *events._BETWEEN])})\s*"
_OVERVIEWS = [f"{name[0].upper()}{name[1:]}Overview" for name in (*COLLECTIONS, *return_parameter._NAMES)]
RETURNED = rf"^(?:{'|'.join(_OVERVIEWS)}|(?:Joc)?OrderStatistics(?:Changed)?|{_EVENT}(?:,{_EVENT})*)$"
"""What JobScheduler's clients ask for with `return=`; statistics are of orders, an overview of its own collection."""
