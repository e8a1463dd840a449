"""Renders charts as SVG with the page's colours, light or dark, and its text.

Matplotlib draws with placeholders. A colour is a number that is replaced by a CSS variable. A name or tooltip is a mark
that is replaced by escaped text, so Matplotlib never measures a name or parses it as a formula.
"""

import io
import re
from collections.abc import Mapping
from typing import Any, Final

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from glue_jobs.page import formatting

_VARIABLES: Final = (
    "ink", "muted", "line", "accent", "job", "jobset", "scheduler", "push", "other", "success", "failure", "timeout",
    "open", "paper",
)  # fmt: skip
COLOURS: Final[Mapping[str, str]] = {name: f"#0a0b{place:02x}" for place, name in enumerate(_VARIABLES)}
"""Placeholder colours, replaced by CSS variables of the page."""

FONT: Final = 12

_SETTINGS: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "annals",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "path.simplify": True,
    "axes.unicode_minus": False,
}
_NO_METADATA: Final = {"Date": None, "Creator": None, "Format": None, "Type": None}

_COLOUR: Final = re.compile("#0a0b([0-9a-f]{2})")
_REMOVABLE: Final = re.compile(
    r"<metadata>.*?</metadata>|<style.*?</style>|<defs>\s*</defs>|<g/>"
    r"| font-family: [^;]*;| transform=\"rotate\(-?0 [^)]*\)\"|(?<=\.\d\d)\d+",
    re.DOTALL,
)
"""Parts of Matplotlib's SVG that the page does not need."""
_ID: Final = re.compile(r' id="([^"]*)"')
_REFERENCE: Final = re.compile(r'(url\(#|href="#)([^)"]+)')
_MARK: Final = re.compile("@([0-9]+)@")
_TIP: Final = re.compile('<g id="@([0-9]+)@">')


class Drawing:
    """A picture of a given size in pixels, and the texts in it."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        self._figure.patch.set_visible(False)
        self._texts: list[Markup] = []

    def axes(self, left: float, top: float, right: float, bottom: float) -> Axes:
        """Axes with margins in pixels."""
        width, height = self.width - left - right, self.height - top - bottom
        axes = self._figure.add_axes(
            (left / self.width, bottom / self.height, width / self.width, height / self.height)
        )
        axes.patch.set_visible(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0, pad=6, labelsize=FONT, labelcolor=COLOURS["muted"])
        axes.set_axisbelow(True)
        return axes

    def label(self, name: object, length: int) -> str:
        """A placeholder for a name that may be shortened. The tooltip has the whole name."""
        whole, short = formatting.name(name), formatting.shorten(name, length)
        tip = Markup("<title>{}</title>").format(whole) if whole != short else Markup()
        return self._mark(tip + escape(short))

    def tip(self, text: str) -> str:
        """An id for an element with this tooltip."""
        return self._mark(Markup("<title>{}</title>").format(text))

    def svg(self, name: str, gist: str) -> Markup:
        """The picture as SVG. `name` prefixes its ids, `gist` is the text for screen readers."""
        output = io.StringIO()
        with mpl.rc_context(_SETTINGS):
            self._figure.savefig(output, format="svg", metadata=_NO_METADATA)
        text = output.getvalue()
        inner = _REMOVABLE.sub("", text[text.index(">", text.index("<svg")) + 1 :])
        inner = re.sub(r"\s*\n\s*", "\n", inner)
        inner = _COLOUR.sub(lambda match: f"var(--{_VARIABLES[int(match[1], 16)]})", inner)
        inner = _TIP.sub(r"<g>@\1@", inner)
        inner = _with_own_ids(inner, name)
        inner = _MARK.sub(lambda match: self._texts[int(match[1])], inner)
        head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(self.width, self.height, gist)
        return head + Markup(inner)  # noqa: S704

    def _mark(self, text: Markup) -> str:
        self._texts.append(text)
        return f"@{len(self._texts) - 1}@"


def _with_own_ids(svg: str, name: str) -> str:
    """Keep only referenced ids, and make them unique on the page."""
    used = {match[2] for match in _REFERENCE.finditer(svg)}
    svg = _ID.sub(lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", svg)
    return _REFERENCE.sub(rf"\g<1>{name}-\2", svg)
