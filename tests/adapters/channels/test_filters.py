"""Filters of observers: expressions over an event."""

import pytest

from chalicelib.adapters.templates.renderer import MAX_FILTER_CHARS, TemplateRenderer
from chalicelib.domain.errors import Undeliverable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("event.event != 'progress'", True),
        ("event.event == 'progress'", False),
        ("event.props.author in ['anna', 'bob'] and not event.success", True),
        ("event.params.branch.startswith('release/')", True),
        ("event.success == '0'", False),
        ("event.success is defined", False),
        ("event.data.text.anything == 'x'", False),
        ("event['data']['text']", False),
        ("event.duration > 60 or event.duration <= 60", False),
        ("'x' in event.tags", False),
        ("event.jobs|selectattr('success', 'eq', '0')|list", False),
        ("event.params|length == 1 and event.id % 2 == 1", True),
        ("event.missing|default('none') == 'none'", True),
        ("true", True),
        ("true".ljust(MAX_FILTER_CHARS), True),
        ("''", False),
        ("event", True),
    ],
)
def test_filter_is_evaluated_over_event(text: str, expected: bool) -> None:
    event = {"event": "create", "id": 7, "props": {"author": "anna"}, "params": {"branch": "release/1"}}
    templates = TemplateRenderer()
    templates.check_filter(text)
    assert templates.evaluate_filter(text, {"event": event}) is expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("evnt.id == 1", "the filter: 'evnt' is undefined"),
        ("nobody", "the filter: 'nobody' is undefined"),
        ("event.__class__", "the filter: '__class__' of a dict is not accessible"),
        ("event.clear()", "the filter: 'clear' of a dict is not accessible"),
        ("event.id\n + event.missing", "'missing' is undefined"),
        ("event.id / 0", "the filter: division by zero"),
        ("'x' * 10**10", "the filter: it makes a value larger than 1 MB"),
        ("2 ** (10 ** 9)", "the filter: it makes a number of more than 4096 bits"),
        ("range(10 ** 9)|list", "the filter: it makes a value larger than 1 MB"),
        ("event.id + 'a'", "the filter: unsupported operand type(s) for +: 'int' and 'str'"),
    ],
)
def test_failing_filter_has_one_line_reason(text: str, reason: str) -> None:
    with pytest.raises(Undeliverable) as refusal:
        TemplateRenderer().evaluate_filter(text, {"event": {"id": 7}})
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unexpected 'end of template'"),
        ("event.event !=", "unexpected 'end of template'"),
        ("event.event = 'x'", "chunk after expression"),
        ("{{ event }}", "expected token"),
        ("{% if event %}", "expected"),
        ("event|shout", "No filter named 'shout'."),
        ("event is shouting", "No test named 'shouting'."),
        ("event.id === 7", "unexpected '='"),
        ("event;", "chunk after expression"),
        ("(" * 600 + "1" + ")" * 600, "it is nested too deeply"),
        ("x" * (MAX_FILTER_CHARS + 1), "it is longer than 2000 characters"),
    ],
)
def test_check_filter_refuses_invalid_filter(text: str, reason: str) -> None:
    templates = TemplateRenderer()
    with pytest.raises(ValueError, match=r"^a filter is an expression such as event\.event != 'progress': ") as refusal:
        templates.check_filter(text)
    assert reason in str(refusal.value)
    with pytest.raises(Undeliverable):
        templates.evaluate_filter(text, {"event": {}})


@pytest.mark.parametrize("text", ["'x' * 10**10", "'%0999999999d'|format(1)", "2 ** (10**9)", "range(10**9)|list"])
def test_check_filter_does_not_evaluate(text: str) -> None:
    TemplateRenderer().check_filter(text)
