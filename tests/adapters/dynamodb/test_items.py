"""Items of the two tables, and when their text is deflated."""

import base64
import hashlib
import random
import tracemalloc
import uuid
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.adapters.dynamodb.capacity import item_size, write_units
from chalicelib.adapters.dynamodb.items import (
    BODY,
    IDEM,
    MAX_INFLATED_BYTES,
    ZIDEM,
    Z,
    commits_from_item,
    head_from_item,
    item_from_commit,
    item_from_commits,
)
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.body import join_body
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import EVENT_ID_END
from chalicelib.domain.log.append import MAX_BYTES
from chalicelib.domain.log.commit import Commit
from tests.builders import NOW_S, a_commit, a_text, incompressible_text

ITEM_LIMIT_BYTES = 400 * 1024

numbers = st.integers(0, EVENT_ID_END - 1)
names = st.text(st.characters(codec="utf-8", exclude_characters="\n"))
digests = st.text("0123456789abcdef", min_size=1)
event_texts = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1), min_size=1)


@st.composite
def _commits(draw: st.DrawFn) -> Commit:
    texts = draw(event_texts)
    key = draw(st.just("") | st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1))
    return Commit(
        draw(numbers),
        draw(st.integers(1, 2**40)),
        draw(numbers),
        len(texts),
        draw(numbers),
        draw(names),
        join_body(texts),
        draw(numbers),
        draw(names),
        key,
        draw(digests) if key else "",
    )


commits = _commits()


def test_item_from_small_commit_is_plain() -> None:
    commit = a_commit(session=7, request_id="r", server=3, at=1_700, prev=1_600, texts=("{}", "{}"))
    assert item_from_commit(commit) == {
        "server": {"N": "3"},
        "session": {"N": "7"},
        "at": {"N": "1700"},
        "n": {"N": "2"},
        "prev": {"N": "1600"},
        "before": {"N": "12"},
        "req": {"S": "r"},
        "crc": {"S": str(commit.checksum)},
        "body": {"S": "[{},\n{}]"},
    }


def test_item_from_large_commit_is_deflated() -> None:
    commit = a_commit(session=7, request_id="r", server=3, at=1_700, prev=1_600, texts=(a_text(),) * 20)
    assert item_from_commit(commit) == {
        "server": {"N": "3"},
        "session": {"N": "7"},
        "at": {"N": "1700"},
        "n": {"N": "20"},
        "prev": {"N": "1600"},
        "before": {"N": "120"},
        "req": {"S": "r"},
        "crc": {"S": str(commit.checksum)},
        "z": {"B": base64.b64encode(zlib.compress(commit.body.encode())).decode()},
    }


@pytest.mark.parametrize(
    "deflated",
    [zlib.compress(b" " * 5 * MAX_INFLATED_BYTES), zlib.compress(b"[]")[:-1], b"no zlib", b""],
    ids=["too large", "truncated", "not deflated", "empty"],
)
def test_commit_from_corrupt_item_raises_log_broken(deflated: bytes) -> None:
    item = item_from_commit(a_commit(session=7, request_id="r"))
    del item[BODY]
    tracemalloc.start()
    with pytest.raises(LogBroken, match="an item"):
        commits_from_item({**item, Z: {"B": base64.b64encode(deflated).decode()}})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 3 * MAX_INFLATED_BYTES


@pytest.mark.parametrize(
    ("plain_bytes", "letters", "attribute"),
    [
        (1_024, "repeated", BODY),
        (1_025, "repeated", Z),
        (1_250, "noise", Z),
        (1_600, "noise", BODY),
        (2_047, "noise", BODY),
        (4_200, "noise", Z),
        (MAX_BYTES, "repeated", Z),
        (MAX_BYTES, "noise", Z),
    ],
)
def test_item_from_commit_deflates_if_it_saves_a_write_unit(plain_bytes: int, letters: str, attribute: str) -> None:
    frame = item_size(item_from_commit(a_commit(texts=("",))))
    size = plain_bytes - frame
    item = item_from_commit(a_commit(texts=("x" * size if letters == "repeated" else incompressible_text(size),)))
    assert {BODY, Z} & item.keys() == {attribute}
    assert (item_size(item) == plain_bytes) is (attribute == BODY)


def test_item_from_largest_commit_fits_as_text() -> None:
    item = item_from_commit(a_commit(at=EVENT_ID_END - 1, request_id="r" * 256))
    item[BODY] = {"S": "x" * MAX_BYTES}
    assert item_size(item) < ITEM_LIMIT_BYTES


def test_head_from_item_needs_no_body() -> None:
    item = item_from_commit(a_commit(session=7, server=3, at=1_700, texts=("{}", "{}", "{}")))
    del item[BODY]
    assert head_from_item(item) == Head(server=3, session=7, instance=3, last_event_id=1_702)


@given(commits)
def test_commit_round_trip(commit: Commit) -> None:
    assert commits_from_item(item_from_commit(commit)) == [commit]


@given(commits)
def test_item_from_commit_never_costs_more_than_plain(commit: Commit) -> None:
    item = item_from_commit(commit)
    plain = {name: value for name, value in item.items() if name != Z} | {BODY: {"S": commit.body}}
    saved = write_units(item_size(plain)) - write_units(item_size(item))
    assert saved >= 1 if Z in item else saved == 0


@given(st.lists(commits, min_size=1, max_size=5))
def test_run_round_trip(group: list[Commit]) -> None:
    run = [group[0]]
    for other in group[1:]:
        head = run[-1].head
        commit = other._replace(server=head.server, session=head.session + 1, at_us=head.last_event_id + 1)
        run.append(commit._replace(previous_event_id=head.last_event_id, before=head.position))
    assert commits_from_item(item_from_commits(run)) == run


@pytest.mark.parametrize(
    "change",
    [{"at": {"N": "1701"}}, {"n": {"N": "1"}}, {"prev": {"N": "7"}}, {"before": {"N": "9"}}, {"req": {"S": "q"}}],
    ids=lambda change: next(iter(change)),
)
def test_changed_item_raises_log_broken(change: dict[str, dict[str, str]]) -> None:
    item = item_from_commit(a_commit(session=7, server=3, at=1_700, prev=1_600, texts=("{}", "{}")))
    with pytest.raises(LogBroken, match="session 7 of server 3 is damaged"):
        commits_from_item({**item, **change})


def test_keys_of_a_run_are_deflated() -> None:
    """70 bytes for each key and its digest would halve the requests per second of a hub."""
    digests = [hashlib.sha256(f"{n}".encode()).hexdigest()[:32] for n in range(100)]
    rng = random.Random(1)
    keys = [str(uuid.UUID(int=NOW_S * 1000 + n << 80 | 7 << 76 | 2 << 62 | rng.getrandbits(62))) for n in range(100)]
    commits = [
        a_commit(n + 1, at=1000 + n, prev=999 + n if n else 0, key=key, digest=digest)
        for n, (key, digest) in enumerate(zip(keys, digests, strict=True))
    ]
    item = item_from_commits(commits)
    assert item_size({ZIDEM: item[ZIDEM]}) < 35 * len(keys)
    assert commits_from_item(item) == commits
    assert IDEM in item_from_commit(commits[0])


@pytest.mark.parametrize("keys", [b"not deflated", zlib.compress(b"d k")[:-1], zlib.compress(b"d k")])
def test_damaged_keys_of_a_run_raise_log_broken(keys: bytes) -> None:
    commits = [a_commit(n + 1, at=1000 + n, prev=999 + n if n else 0, key="a" * 99) for n in range(2)]
    item = item_from_commits(commits)
    assert ZIDEM in item
    with pytest.raises(LogBroken):
        commits_from_item({**item, ZIDEM: {"B": base64.b64encode(keys).decode()}})


def test_item_of_version_0_1_0_has_no_position() -> None:
    item = item_from_commit(a_commit(session=7, request_id="r", texts=("{}", "{}")))
    for name in ("before", "crc"):
        del item[name]
    (commit,) = commits_from_item(item)
    assert (commit.before, commit.head.position, commit.events[0].position) == (None, None, None)
    assert head_from_item(item) == commit.head
