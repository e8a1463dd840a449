"""Rendering: template features, sandbox, limits, error messages, overrides and filters."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from os import utime
from pathlib import Path
from typing import Any

import pytest

from chalicelib.adapters.templates.limits import Limits
from chalicelib.adapters.templates.renderer import TemplateRenderer
from chalicelib.domain.errors import Undeliverable

SCOPE: dict[str, Any] = {"name": "<b>", "params": {"k": [1, 2]}, "secret": "s3cret"}
SHORT_TIME = Limits(cpu_seconds=0.05)
_moments = count(1_800_000_000)


def write(directory: Path, text: str, path: str = "app/create.body.j2") -> None:
    """Write a template override. Each edit has its own modification time."""
    file = directory / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    utime(file, (moment := next(_moments), moment))


def render(directory: Path, text: str, limits: Limits | None = None) -> str:
    write(directory, text)
    return TemplateRenderer(directory, limits).render("app", "create", "body", SCOPE).rstrip("\n")


def refusal_reason(directory: Path, text: str, limits: Limits | None = None) -> str:
    with pytest.raises(Undeliverable) as refusal:
        render(directory, text, limits)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ name }} {{ params.k|join(', ') }}", "<b> 1, 2"),
        (
            "{% for k, v in params.items() %}{{ loop.index }}/{{ loop.length }} {{ k }}={{ v|last }}{% endfor %}",
            "1/1 k=2",
        ),
        ("{% for i in range(5) if i is odd %}{{ i }}{{ loop.cycle('a', 'b') }}{% endfor %}", "1a3b"),
        ("{% macro m(a, b=2) %}{{ a ~ b }}{{ caller() }}{% endmacro %}{% call m(1) %}!{% endcall %}", "12!"),
        ("{% set x | upper %}a{{ 'b' }}{% endset %}{{ x }}{% filter lower %}X{% endfilter %}", "ABx"),
        ("{% set n = namespace(v=1) %}{% for i in [2, 3] %}{% set n.v = n.v * i %}{% endfor %}{{ n.v }}", "6"),
        ("{{ '%-4s|%.1f' % ('a', 2) }} {{ '%s'|format(1) }} {{ 2 ** 10 }} {{ 'ab' * 2 }}", "a   |2.0 1 1024 abab"),
        (
            "{{ 'a-b'.split('-')|map('upper')|list|tojson }} {{ 'a'.replace('a', 'b') }} {{ '-'.join('ab') }}",
            '["A", "B"] b a-b',
        ),
        ("{{ [3, 1, 2]|sort|first }} {{ (1, 2)|sum }} {{ {'a': none}.a }} {{ 'x'|indent(2, true) }}", "1 3    x"),
        ("{% for i in [1, [2]] recursive %}{{ loop(i) if i is sequence else i }}{% endfor %}", "12"),
        (
            "{{ 3725|duration }} / {{ 0.256|duration }} / {{ 60|duration }} / {{ 'soon'|duration }}",
            "1 h 2 min / 0.26 s / 1 min / soon",
        ),
        (
            "{{ 'abcdef'|clip(4) }} {{ {'a': 1}|clip(9) }} {{ '1/4'|share }} {{ '80%'|share }} {{ 'x'|share }}",
            'abc… {"a": 1} 25 80',
        ),
        ("{{ '<!here> & co'|slack }} {{ [1, 2, 3]|latest(2, 99) }}", "&lt;!here&gt; &amp; co [2, 3]"),
        ("{{ [10, 20, 30]|latest(9, 4) }} {{ [10, 20, 30]|latest(9, 3) }}", "[20, 30] [30]"),
    ],
)
def test_render_supports_common_template_features(tmp_path: Path, text: str, expected: str) -> None:
    assert render(tmp_path, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ ''['__class__'] }}",
        "{{ ''|attr('__class__') }}",
        "{{ [['']]|map(attribute='0.__class__')|list }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ '{a.__class__}'.format_map({'a': 1}) }}",
        "{{ ('{0.__class__}'|safe).format(1) }}",
        "{{ self.__init__.__globals__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ range.__self__ }}",
        "{{ range.__func__.__globals__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ namespace.__init__.__globals__ }}",
        "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
        "{% for i in [1] %}{{ loop._recurse }}{{ loop.__class__ }}{% endfor %}",
        "{{ params.update({'k': 1}) }}",
        "{{ params.k.append(3) }}",
        "{{ params.k.sort() }}",
        "{{ lipsum.__globals__ }}",
        "{{ params.items }}",
        "{{ loop }}",
        "{% include '/etc/passwd' %}",
        "{% include '../../../../etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ [1]|map('pprint')|list }}",
        "{{ dict.fromkeys('ab') }}",
        "{{ 'x'.encode() }}",
    ],
)
def test_template_cannot_reach_beyond_its_scope(tmp_path: Path, text: str) -> None:
    assert refusal_reason(tmp_path, text).startswith("template app/create.body.j2, line 1: ")
    assert SCOPE["params"] == {"k": [1, 2]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ 'x' * 10**10 }}", "it makes a value larger than 1 MB"),
        ("{{ 10**10 * 'x' }}", "it makes a value larger than 1 MB"),
        ("{{ 2 ** (10**9) }}", "it makes a number of more than 4096 bits"),
        ("{% set n = namespace(v=3) %}{% for i in range(99) %}{% set n.v = n.v * n.v %}{% endfor %}", "4096 bits"),
        ("{{ ('f' * 9999)|int(0, 16) }}", "it makes a number of more than 4096 bits"),
        ("{{ '%0999999999d' % 1 }}", "it formats with more than simple directives"),
        ("{{ '%*d' % (999999999, 1) }}", "it formats with more than simple directives"),
        ("{{ '%.999999999f' % 1 }}", "it formats with more than simple directives"),
        ("{{ '%(a(b)c)999999999d' % {'a(b)c': 1} }}", "it formats with more than simple directives"),
        ("{{ '%0999999999d'|format(1) }}", "it formats with more than simple directives"),
        ("{{ '{:>999999999}'.format(1) }}", "'format' may not be called"),
        ("{{ 'x'.ljust(10**9) }}", "'ljust' may not be called"),
        ("{{ 'x'.zfill(10**9) }}", "'zfill' may not be called"),
        ("{{ 'x'.expandtabs(10**9) }}", "'expandtabs' may not be called"),
        ("{{ (1).to_bytes(10**9, 'big') }}", "'to_bytes' may not be called"),
        ("{{ 'x'|center(10**9) }}", "No filter named 'center'."),
        ("{{ [1]|batch(10**9, 1) }}", "No filter named 'batch'."),
        ("{{ 'x'|indent(10**9) }}", "it makes a value larger than 1 MB"),
        ("{{ ('x\n' * 9999)|indent(999) }}", "it makes a value larger than 1 MB"),
        ("{{ 1.5|round(10**9, 'ceil') }}", "it rounds to more than 30 digits"),
        ("{{ range(10**9)|list }}", "it makes a value larger than 1 MB"),
        ("{{ range(10**30) }}", "it makes a range that is too long"),
        ("{{ lipsum(10**6) }}", "'lipsum' is undefined"),
        ("{{ ('x' * 99999).join('x' * 99999) }}", "it makes a value larger than 1 MB"),
        ("{{ ('x' * 99999)|join('x' * 99999) }}", "it makes a value larger than 1 MB"),
        ("{{ ('x' * 99999).replace('', 'x' * 99999) }}", "it makes a value larger than 1 MB"),
        ("{{ ('x' * 99999)|replace('x', 'x' * 99999) }}", "it makes a value larger than 1 MB"),
        ("{{ [['x' * 99999] * 9] * 9 }}", "it makes a value larger than 1 MB"),
        (
            "{% set n = namespace(v='x') %}{% for i in range(99) %}{% set n.v = n.v ~ n.v %}{% endfor %}",
            "larger than 1 MB",
        ),
        (
            "{% set n = namespace(v=[]) %}{% for i in range(99) %}{% set n.v = [n.v, n.v] %}{% endfor %}",
            "larger than 1 MB",
        ),
        (
            "{% set n = namespace(v='x') %}{% for i in range(99) %}{% set n.v %}{{ n.v * 2 }}{% endset %}{% endfor %}",
            "larger than 1 MB",
        ),
        (
            "{% macro m(n) %}{{ m(n - 1, varargs, varargs) if n else varargs }}{% endmacro %}{{ m(60) }}",
            "it makes a value larger than 1 MB",
        ),
        ("{% for i in range(20) %}{% set x = 'x' * 1000000 %}{% endfor %}", "it makes more than 8 MB of values"),
        (
            "{{ [-10**9]|map('charge')|list }}{% for i in range(20) %}{% set x = 'x' * 1000000 %}{% endfor %}",
            "more than 8 MB",
        ),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "it is nested too deeply"),
        ("{% include 'app/create.body.j2' %}", "it is nested too deeply"),
        ("{% extends 'app/create.body.j2' %}", "it is nested too deeply"),
        ("{% import 'app/create.body.j2' as x %}", "it is nested too deeply"),
        ("{% for i in [1] recursive %}{{ loop([i]) }}{% endfor %}", "it is nested too deeply"),
        ("{% block b %}{{ self.b() }}{% endblock %}", "it is nested too deeply"),
    ],
)
def test_template_exceeding_size_limits_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    assert reason in refusal_reason(tmp_path, text, Limits(cpu_seconds=60))


@pytest.mark.parametrize(
    "text",
    [
        "{% set r = range(9000) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
        "{% set r = range(30000) %}{% for a in r if r|list == [a] %}{% endfor %}",
        "{% set r = range(30000)|list %}{% for a in r if a + 40000 in r %}{% endfor %}",
        "{% set r = range(20000)|list %}{{ r|map('string')|select('in', r)|list }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        "{% set s = 'x' * 900000 %}{% for i in range(30000) %}{% if s ~ '' == s %}{% endif %}{% endfor %}",
    ],
)
def test_template_exceeding_time_limit_is_stopped(tmp_path: Path, text: str) -> None:
    plenty = Limits(cpu_seconds=0.05, total_cost=2**60)
    assert refusal_reason(tmp_path, text, plenty) == "template app/create.body.j2, line 1: it takes longer than 0.05 s"


def test_each_rendering_has_its_own_budget_in_every_thread(tmp_path: Path) -> None:
    write(tmp_path, "{% set r = range(9000) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}")
    write(tmp_path, "fine", "app/clean.body.j2")
    templates = TemplateRenderer(tmp_path, SHORT_TIME)

    def tries(_number: int) -> tuple[str, str]:
        with pytest.raises(Undeliverable) as refusal:
            templates.render("app", "create", "body", {})
        return str(refusal.value), templates.render("app", "clean", "body", {})

    with ThreadPoolExecutor(4) as threads:
        results = set(threads.map(tries, range(8)))
    assert {text for _, text in results} == {"fine\n"}
    assert all("it takes longer than 0.05 s" in refusal or "of values" in refusal for refusal, _ in results)


@pytest.mark.parametrize("text", ["{% for i in range(99) %}" + "x" * 4000 + "{% endfor %}", "{{ 'ü' * 140000 }}"])
def test_output_size_is_limited_in_bytes(tmp_path: Path, text: str) -> None:
    assert refusal_reason(tmp_path, text) == "template app/create.body.j2: it makes a message larger than 256 KB"
    assert render(tmp_path, text, Limits(output_bytes=2**20))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\n\n{{ nobody }}", "line 3: 'nobody' is undefined"),
        ("\n{{ params.x.y }}", "line 2: 'dict object' has no attribute 'x'"),
        ("\n{% if %}", "line 2: Expected an expression, got 'end of statement block'"),
        ("\n\n{{ name|shout }}", "line 3: No filter named 'shout'."),
        ("{{ 1 / 0 }}", "line 1: division by zero"),
        ("\n{% include 'app/_nothing.j2' %}", "line 2: there is no template 'app/_nothing.j2'"),
        ("{{ params.k() }}", "line 1: a list may not be called"),
        ("{{ params.__class__ }}", "line 1: '__class__' of a dict is not accessible"),
        ("{% macro m() %}{% endmacro %}\n{{ m }}", "line 2: a macro cannot be printed"),
        ("{{ " + "(" * 500 + "1" + ")" * 500 + " }}", "it is nested too deeply"),
    ],
)
def test_error_names_template_and_line(tmp_path: Path, text: str, reason: str) -> None:
    refusal = refusal_reason(tmp_path, text)
    assert refusal.startswith("template app/create.body.j2")
    assert reason in refusal
    assert "s3cret" not in refusal


def test_error_in_included_template_names_that_template(tmp_path: Path) -> None:
    write(tmp_path, "\n{{ nobody }}", "app/_part.body.j2")
    assert refusal_reason(tmp_path, "{% include 'app/_part.body.j2' %}") == (
        "template app/_part.body.j2, line 2: 'nobody' is undefined"
    )
    write(tmp_path, "\n\n{% endfor %}", "app/_part.body.j2")
    assert refusal_reason(tmp_path, "{% include 'app/_part.body.j2' %}").startswith(
        "template app/_part.body.j2, line 3: "
    )


def test_template_with_invalid_utf8_is_undeliverable(tmp_path: Path) -> None:
    write(tmp_path, "")
    (tmp_path / "app" / "create.body.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(Undeliverable, match=r"template app/create\.body\.j2: .* can't decode byte"):
        TemplateRenderer(tmp_path).render("app", "create", "body", {})


def test_override_replaces_only_one_template(tmp_path: Path) -> None:
    packaged, own = TemplateRenderer(), TemplateRenderer(tmp_path)
    scope = {"event": "create", "id": 7, "type": "build", "node": "n1", "link": ""}
    write(tmp_path, "Seven: {{ id }}", "mail/create.subject.j2")
    assert own.render("mail", "create", "subject", scope) == "Seven: 7"
    assert own.render("mail", "clean", "subject", scope) == packaged.render("mail", "clean", "subject", scope)
    assert own.render("mail", "create", "html", scope) == packaged.render("mail", "create", "html", scope)


def test_override_of_included_part_applies_everywhere(tmp_path: Path) -> None:
    write(tmp_path, "{{ id }} {{ news }}", "app/_job.body.j2")
    assert TemplateRenderer(tmp_path).render("app", "clean", "body", {"id": 7}) == "7 took too long and was cleaned\n"


def test_override_changes_are_seen_immediately(tmp_path: Path) -> None:
    templates = TemplateRenderer(tmp_path)
    scope = {"event": "create", "id": 7, "type": "build", "node": "n1"}
    subjects = [templates.render("mail", "create", "subject", scope)]
    for text in ("one", "two"):
        write(tmp_path, text, "mail/create.subject.j2")
        subjects.append(templates.render("mail", "create", "subject", scope))
    (tmp_path / "mail" / "create.subject.j2").unlink()
    subjects.append(templates.render("mail", "create", "subject", scope))
    assert subjects == ["Created build on n1 (#7)", "one", "two", "Created build on n1 (#7)"]


def test_repaired_override_is_used_for_next_message(tmp_path: Path) -> None:
    assert "line 1" in refusal_reason(tmp_path, "{% if %}")
    assert render(tmp_path, "mended") == "mended"


def test_custom_event_may_have_own_template(tmp_path: Path) -> None:
    write(tmp_path, "{{ key }} was tagged", "app/tagged.subject.j2")
    scope: dict[str, Any] = {"type": ["repo", "tagged"], "key": "annals", "payload": None, "event": {}, "link": ""}
    assert TemplateRenderer(tmp_path).render("app", "tagged", "subject", scope) == "annals was tagged"
    assert TemplateRenderer(tmp_path).render("app", "other", "subject", scope) == "repo/tagged annals"


@pytest.mark.parametrize("name", ["", "_job", "../mail/create", "create.subject", "x/y", "x" * 99, "ü", "create\n"])
def test_unknown_name_uses_default_template(name: str) -> None:
    scope: dict[str, Any] = {"type": ["a", "b"], "key": None, "link": ""}
    assert TemplateRenderer().render("app", name, "subject", scope) == "a/b"


def test_subject_is_one_line_and_encodable(tmp_path: Path) -> None:
    write(tmp_path, "a\r\nBcc: b\n\n{{ x }}", "mail/create.subject.j2")
    assert TemplateRenderer(tmp_path).render("mail", "create", "subject", {"x": "\ud800"}) == "a Bcc: b ?"


def test_slack_template_with_invalid_json_is_undeliverable(tmp_path: Path) -> None:
    write(tmp_path, '{"text": "{{ x }}",}', "slack/create.json.j2")
    with pytest.raises(Undeliverable, match=r"^template slack/create\.json\.j2: its output is not valid JSON: "):
        TemplateRenderer(tmp_path).render("slack", "create", "json", {"x": "a"})


def test_threads_sharing_renderer_do_not_mix_values(tmp_path: Path) -> None:
    write(tmp_path, "{% from 'app/_m.body.j2' import m %}{% for i in range(50) %}{{ m(id) }}{% endfor %}")
    write(tmp_path, "{% macro m(x) %}<{{ x }}>{% endmacro %}", "app/_m.body.j2")
    templates = TemplateRenderer(tmp_path)
    together = threading.Barrier(8)

    def rounds(thread: int) -> set[str]:
        together.wait(timeout=60)
        return {templates.render("app", "create", "body", {"id": thread}) for _ in range(50)}

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(rounds, range(8))) == [{f"<{thread}>" * 50 + "\n"} for thread in range(8)]


def test_call_with_too_many_arguments_is_refused(tmp_path: Path) -> None:
    text = "{% macro m() %}{{ varargs|length }}{% endmacro %}{{ m(*('x' * LENGTH)) }}"
    plenty = Limits(cpu_seconds=60)
    assert render(tmp_path, text.replace("LENGTH", "100"), plenty) == "100"
    assert "it makes a value larger than 1 MB" in refusal_reason(tmp_path, text.replace("LENGTH", "100000"), plenty)
