"""Signals, names, outputs and keys of pings."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from chalicelib.domain.errors import BadInput
from chalicelib.domain.log.append import encode_within_limits
from chalicelib.domain.pings import ping_key
from chalicelib.domain.pings.ping import (
    MAX_ENCODED_BYTES,
    MAX_LOG_LINES,
    MAX_MESSAGE_CHARS,
    MAX_NAME_CHARS,
    MAX_OUTPUT_BYTES,
    NAME_PATTERN,
    SIGNAL_PATTERN,
    Action,
    Ping,
    Signal,
    check_name,
    parse_signal,
    read_output,
)
from chalicelib.domain.pings.ping_events import create_event, finish_event, log_events, new_run

FAILED = Signal(Action.FAILURE)


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("start", Signal(Action.START)),
        ("fail", FAILED),
        ("log", Signal(Action.LOG)),
        ("0", Signal(Action.SUCCESS, 0)),
        ("1", Signal(Action.FAILURE, 1)),
        ("255", Signal(Action.FAILURE, 255)),
    ],
)
def test_parse_signal_returns_action_and_exit_status(text: str, signal: Signal) -> None:
    assert parse_signal(text) == signal
    assert re.search(SIGNAL_PATTERN, text)


@pytest.mark.parametrize(
    "text", ["256", "1000", "-1", "+1", "01", "00", "1.0", "1e2", "0x1", "", " 1", "Start", "success", "٣", "start\n"]
)
def test_parse_signal_with_other_text_raises_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match=r"start, /fail, /log or an exit status from 0 to 255"):
        parse_signal(text)


@pytest.mark.parametrize("name", ["backup", "a.b", "Nightly backup", "ünï", "..", "start", "x" * MAX_NAME_CHARS])
def test_check_name_returns_valid_name(name: str) -> None:
    assert check_name(name, "node") == name


@pytest.mark.parametrize("name", ["", "a/b", "a*", "?", "a\n", "\0", "\x7f", "x" * (MAX_NAME_CHARS + 1)])
def test_check_name_with_reserved_text_raises_bad_input(name: str) -> None:
    with pytest.raises(BadInput, match="node has 1 to 200 characters, without"):
        check_name(name, "node")
    assert not re.fullmatch(NAME_PATTERN, name)


def test_read_output_has_one_entry_per_line() -> None:
    output = read_output(b"one\r\n\n two \nthree\n\n")
    assert (output.lines, output.last_line) == (("one", "", " two ", "three"), "three")


@pytest.mark.parametrize("body", [b"", b"\n", b" \r\n\t"])
def test_read_output_of_blank_body_has_no_lines(body: bytes) -> None:
    output = read_output(body)
    assert (output.lines, output.last_line) == ((), "")


def test_read_output_replaces_bytes_that_are_not_utf8() -> None:
    assert read_output(b"a\xff\xc3b").lines == ("a��b",)


def test_read_output_cuts_and_says_so() -> None:
    output = read_output(b"x" * MAX_OUTPUT_BYTES + b"\nthe reason\n")
    assert output.lines == ("x" * MAX_OUTPUT_BYTES, "[cut: the first 102,400 of 102,412 bytes are kept]")
    assert output.last_line == "the reason"


def test_read_output_cuts_between_characters() -> None:
    text = "ä" * MAX_OUTPUT_BYTES
    kept, notice = read_output(b"x" + text.encode()).lines
    assert (kept, notice[:5]) == ("x" + text[: MAX_OUTPUT_BYTES // 2 - 1], "[cut:")


def test_read_output_joins_lines_of_long_outputs() -> None:
    text = "\n".join(map(str, range(950)))
    lines = read_output(text.encode()).lines
    assert ("\n".join(lines), len(lines)) == (text, 95)


@given(st.binary(max_size=400), st.integers(1, 2_000))
def test_read_output_never_exceeds_its_limits(piece: bytes, count: int) -> None:
    output = read_output(piece * count)
    assert len(to_json("\n".join(output.lines))) <= MAX_ENCODED_BYTES + 100
    assert len(output.lines) <= MAX_LOG_LINES + 1
    assert len(output.last_line) <= MAX_MESSAGE_CHARS


@pytest.mark.parametrize("body", [b"\0" * 300_000, b'"\n' * 150_000, b"\xff\n" * 150_000, b"\n" * 300_000 + b"x"])
def test_events_of_largest_ping_fit_in_one_commit(body: bytes) -> None:
    ping = Ping("ä" * MAX_NAME_CHARS, FAILED, "ö" * MAX_NAME_CHARS, "r" * 36, body=body)
    run, output = new_run(ping, 2**53 - 1), read_output(body)
    events = [create_event(ping), *log_events(ping, run, output), finish_event(ping, run, output)]
    assert len(encode_within_limits(events)) <= MAX_LOG_LINES + 3


def test_pings_that_differ_have_different_digests() -> None:
    ping = Ping("a", FAILED)
    others = [
        Ping("b", FAILED),
        Ping("a", Signal(Action.FAILURE, 1)),
        Ping("a", FAILED, node="n"),
        Ping("a", FAILED, rid="n"),
        Ping("a", FAILED, may_create=True),
        Ping("a", FAILED, body=b"n"),
    ]
    assert len({one.digest for one in (ping, *others, Ping("a", FAILED))}) == 1 + len(others)


@pytest.mark.parametrize(
    "text", ["", "acme", "acme.", ".secret", "a/b.secret", "-a.secret", "é.secret", "a" * 64 + ".s"]
)
def test_organization_of_text_without_organization_is_none(text: str) -> None:
    assert ping_key.organization_of(text) is None


def test_key_text_is_safe_in_paths_and_names_its_organization() -> None:
    text = ping_key.key_text("acme-1_x", "A" * 32)
    assert ping_key.organization_of(text) == "acme-1_x"
    assert re.search(ping_key.KEY_PATTERN, text)
