"""Unit tests of console modules, run in the browser."""

from collections.abc import Sequence

import pytest

from tests.console.browsing import Console
from tests.serving import Member

PARSE = """async pieces => {
    const {SseParser} = await import('/console/sse.js');
    const parser = new SseParser();
    const events = pieces.flatMap(piece => parser.take(piece));
    return {events: events.map(({id, name, data}) => [id, name, data]), retry: parser.retry};
}"""
STREAMS: dict[str, tuple[Sequence[str], list[list[str | None]], int | None]] = {
    "an event": (["id: 1\ndata: a\n\n"], [["1", "message", "a"]], None),
    "in pieces": (["i", "d: 1\nda", "ta: a\n", "\n"], [["1", "message", "a"]], None),
    "lines of three kinds": (["id: 1\rdata: a\r\n\ndata: b\r\r"], [["1", "message", "a"]], None),
    "a line's end in two pieces": (
        ["data: a\r", "\n\r", "\ndata: b\n\n"],
        [[None, "message", "a"], [None, "message", "b"]],
        None,
    ),
    "data of two lines": (["data: a\ndata:b\n\n"], [[None, "message", "a\nb"]], None),
    "a single space is empty data": (["data:  a\n\n"], [[None, "message", " a"]], None),
    "a name": (["event: Torn\nid: 7\ndata: x\n\n"], [["7", "Torn", "x"]], None),
    "a position without data": (["id: 9\n\n"], [["9", "message", None]], None),
    "comments say nothing": ([":keepalive\n", ":keepalive\n"], [], None),
    "retry": (["retry: 1000\n"], [], 1000),
    "an invalid retry": (["retry: soon\n"], [], None),
    "a mark of the byte order": (["\ufeffdata: a\n\n"], [[None, "message", "a"]], None),
    "an unfinished event is not returned": (["data: a\n"], [], None),
    "a field without a colon": (["data\n\n"], [[None, "message", ""]], None),
}


@pytest.mark.parametrize("name", STREAMS)
def test_sse_parser_follows_the_standard(console: Console, member: Member, name: str) -> None:
    pieces, events, retry = STREAMS[name]
    console.page.goto(member.server.url)
    assert console.page.evaluate(PARSE, pieces) == {"events": events, "retry": retry}


@pytest.mark.parametrize("added", [[1], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7], list(range(1, 30))])
def test_ring_keeps_the_newest(console: Console, member: Member, added: list[int]) -> None:
    script = """async ([most, added]) => {
        const {Ring} = await import('/console/parts/ring.js');
        const ring = new Ring(most);
        for (const one of added) ring.add([{eventId: one}]);
        return Array.from({length: ring.length}, (_, index) => ring.at(index).eventId);
    }"""
    console.page.goto(member.server.url)
    assert console.page.evaluate(script, [4, added]) == added[::-1][:4]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "200 ms"), (1, "1 s"), (59.4, "59 s"), (60, "1 min"), (162, "2.7 min"), (5_400, "1.5 h"), (86_400, "1 d")],
)
def test_duration_uses_the_largest_fitting_unit(console: Console, member: Member, seconds: float, words: str) -> None:
    console.page.goto(member.server.url)
    script = "async seconds => (await import('/console/time.js')).duration(seconds)"
    assert console.page.evaluate(script, seconds) == words
