"""Parses a page into elements and text, and checks that all elements are closed."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_EMPTY = {"meta", "br", "hr", "img", "input", "link"}


@dataclass
class Element:
    """An element with its text and children."""

    name: str
    attributes: dict[str, str | None]
    text: str = ""
    inside: list["Element"] = field(default_factory=list)

    def find_all(self, name: str) -> list["Element"]:
        """All descendants with this name."""
        found = [one for one in self.inside if one.name == name]
        return found + [deeper for one in self.inside for deeper in one.find_all(name)]

    @property
    def text_content(self) -> str:
        """The text with normalized spaces."""
        return " ".join(self.text.split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("", {})]
        self.in_order: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, attrs)
        element = Element(tag, dict(attrs))
        self.open[-1].inside.append(element)
        self.in_order.append(element)
        if tag not in _EMPTY:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data


def read(page: str) -> tuple[Element, list[Element]]:
    """Parse a page. Returns the root and all elements in order."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1, [element.name for element in reader.open]
    return reader.open[0], reader.in_order


def tiles(page: str) -> dict[str, str]:
    """The key figures by title."""
    return dict(re.findall(r'<dt>(.*?)</dt>\s*<dd class="value">(.*?)</dd>', page))


def changes(page: str) -> dict[str, str]:
    """The changes of the key figures."""
    found = {}
    for tile in (one for one in read(page)[1] if one.attributes.get("class") == "tile"):
        of_tile = [
            one.text_content for one in tile.find_all("dd") if (one.attributes.get("class") or "").startswith("change")
        ]
        if of_tile:
            found[tile.find_all("dt")[0].text_content] = of_tile[0]
    return found


def table(page: str, caption: str) -> list[list[str]]:
    """The rows of a table, starting with its header."""
    (found,) = (one for one in read(page)[0].find_all("table") if one.find_all("caption")[0].text_content == caption)
    return [[cell.text_content for cell in row.inside if cell.name in ("td", "th")] for row in found.find_all("tr")]
