"""Pages as readers get them: complete, safe, self-contained, deterministic."""

import re
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from glue_jobs.page.rendering import write_pages
from glue_jobs.schemas import TABLES
from tests.glue.page.html_page import read, table, tiles
from tests.glue.page.lakes import NOW, Days, at, events, job, one_row_per_table, page, write_lake

_DAY = "2026-10-31"
_NAMES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style></svg><b>bold</b>",
    "{{ 7 * 7 }}{% raw %}",
    "$\\frac{a}{b}$ a_b^c $",
    "@0@ @1@ #0a0b00 url(#x)",
    "&amp; &lt; ' \"",
    "-->]]>",
    "مهمة النسخ",
    "日本語の仕事",
    "a\nb\x00c\u202ed",
    "x" * 5000,
]
_SPARSE: dict[str, Days] = {
    "only throughput": {_DAY: events(_DAY, job=1)},
    "throughput without events": {_DAY: {"throughput": []}},
    "one job": {_DAY: {"job_runs": [job(1.0, "success", started=at(_DAY))]}},
    "one job that took no time": {_DAY: {"job_runs": [job(0.0, "success", started=at(_DAY))]}},
    "one job that took less than no time": {_DAY: {"job_runs": [job(-5.0, "success")]}},
    "one job of a year": {_DAY: {"job_runs": [job(31e6, "failure")]}},
    "jobs without durations": {_DAY: {"job_runs": [job(None, "success"), job(None, None)]}},
    "only timeouts": {_DAY: {"job_runs": [job(5.0, "timeout")]}},
    **{f"a row of nulls in {name}": {_DAY: {name: [{}]}} for name in TABLES},
    **{f"no rows in {name}": {_DAY: {name: []}} for name in TABLES},
    "rows of nulls in all": {_DAY: {name: [{}, {}] for name in TABLES}},
    "a push job that ended in its own way": {_DAY: {"push_runs": [{"job": "j", "result": "<exploded>"}]}},
}


def test_write_pages_writes_one_page_per_server(tmp_path: Path) -> None:
    for server in (1, 3, 20):
        write_lake(tmp_path, {_DAY: events(_DAY, job=server)}, server)
    lake = write_lake(tmp_path, {}, 4)
    pages = write_pages(lake, {3: "acme & sons"}, NOW, changed=())
    assert [page.path for page in pages] == [f"reports/report-{server}.html" for server in (1, 3, 20)]
    titles = [
        read((tmp_path / f"reports/report-{server}.html").read_text())[0].find_all("h1")[0].text_content
        for server in (1, 3, 20)
    ]
    assert titles == ["Organization 1", "acme & sons", "Organization 20"]


def test_write_pages_empty_lake_writes_none(tmp_path: Path) -> None:
    assert write_pages(write_lake(tmp_path, {}), {}, NOW, changed=()) == []


def test_page_shows_period_and_time_made(tmp_path: Path) -> None:
    found = read(
        page(write_lake(tmp_path, {_DAY: one_row_per_table(_DAY), "2026-08-01": one_row_per_table("2026-08-01")}))
    )[0]
    assert [one.text_content for one in found.find_all("header")[0].inside if one.name == "p"] == [
        "Report of jobs and events",
        "1 October – 31 October 2026",  # noqa: RUF001
        "Made on 2026-11-01 07:30. All times are UTC.",
    ]


def test_page_key_figures_match_tables(tmp_path: Path) -> None:
    runs = [job(10.0, "success"), job(30.0, "success"), job(20.0, "failure"), job(9.0, "timeout"), job()]
    tables = {
        **events(_DAY, job=1000, push=234),
        "job_runs": runs,
        "jobsets": [{"jobset": 1, "result": "timeout"}],
        "order_runs": [{"chain": "c", "result": "success"}, {"chain": "c", "result": "failure"}, {"chain": "c"}],
        "push_runs": [
            {"command": "x", "result": result} for result in ("complete", "quorum_failed", "timed_out", None)
        ],
    }
    assert tiles(page(write_lake(tmp_path, {_DAY: tables}))) == {
        "Events": "1,234",
        "Job runs": "5",
        "Success rate": "50.0 %",
        "Median duration": "20 s",
        "99th percentile": "30 s",
        "Failures": "1",
        "Timeouts": "3",
        "Orders finished": "2",
        "Push jobs": "4",
        "Quorum failures": "1",
    }


def test_page_tables_show_exact_values(tmp_path: Path) -> None:
    found = page(write_lake(tmp_path, {_DAY: one_row_per_table(_DAY, "name")}))
    h = "1 h 00 min"
    assert table(found, "Job types, by runs")[1] == ["name", "2", "0 %", "1", "1", h, h, h, h]
    assert table(found, "Most failing, timeouts included")[1:] == [
        ["name", "Job", "2", "2", "100 %"],
        ["name", "Order", "1", "1", "100 %"],
        ["name", "Push job", "1", "1", "100 %"],
    ]
    assert table(found, "Slowest jobs")[1] == ["name", "name", "name", "2026-10-31 10:00", h]
    assert table(found, "Timeouts, latest first")[1] == ["name", "Job", "name", "name", "2026-10-31 10:00", h]
    assert table(found, "Job chains, by runs")[1] == ["name", "1", "0 %", "4", "1", "2", "1", h, h, h, h]
    assert table(found, "Nodes of chains, time per step")[1] == ["name", "name", "4", "3", "1", "2", h, h, h, h]
    assert table(found, "Push commands, by jobs")[1] == ["name", "1", "0 %", "1", "0", "0", h, h, h, h]
    assert table(found, "Nodes of push jobs, least available first")[1] == [
        "name", "4", "75.0 %", "2", "1", "1", "1", "2", "1", "9.0 s",
    ]  # fmt: skip
    assert [row[:4] for row in table(found, "Waits, longest 99th percentile first")[1:]] == [
        ["name", "Push job", "1", "7.0 s"],
        ["name", "Order", "1", "6.0 s"],
        ["name", "Job", "1", "5.0 s"],
    ]


def test_page_long_table_links_to_remaining_rows(tmp_path: Path) -> None:
    runs = [job(1.0, "success", type=f"t{number}") for number in range(1015)]
    found = page(write_lake(tmp_path, {_DAY: {"job_runs": runs}}, 2), server=2)
    assert len(table(found, "Job types, by runs")) == 16
    assert 'and 1,000 more, in <a href="job_runs/server=2/">job_runs</a>' in found


def test_page_data_section_links_existing_directories(tmp_path: Path) -> None:
    found = page(write_lake(tmp_path, {_DAY: events(_DAY, job=1)}))
    names = [one.text_content for one in read(found)[0].find_all("code")]
    assert names == list(TABLES)
    links = [one.attributes["href"] for one in read(found)[0].find_all("a") if one.find_all("code")]
    assert links == ["throughput/server=1/"]
    assert (tmp_path / "reports" / str(links[0])).is_dir()


def test_page_section_without_data_says_so(tmp_path: Path) -> None:
    found = read(page(write_lake(tmp_path, {_DAY: events(_DAY, other=1)})))[0]
    gists = [one.text_content for one in found.find_all("p") if one.attributes.get("class") == "gist"]
    assert gists[1:5] == [
        "No jobs in this period. They are derived from events whose type starts with “job”.",
        "No job sets in this period. They are derived from events whose type starts with “jobset”.",
        "No orders in this period. They are derived from events whose type starts with “scheduler”.",
        "No push jobs in this period. They are derived from events whose type starts with “push”.",
    ]


def test_page_chart_includes_days_without_events(tmp_path: Path) -> None:
    found = page(write_lake(tmp_path, {day: events(day, job=5) for day in ("2026-10-01", _DAY)}))
    (wide,) = re.findall(r'<div class="picture on-desk">(<svg.*?aria-label="Most were.*?</svg>)', found, re.DOTALL)[:1]
    bars = [float(x) for x in re.findall(r"</title>\n?<path d=\"M ([\d.]+)", wide)]
    assert len(bars) == 2
    assert bars[1] - bars[0] > 900


@pytest.mark.parametrize("days", _SPARSE.values(), ids=_SPARSE.keys())
def test_page_with_sparse_data_is_written(days: Days, tmp_path: Path) -> None:
    found = page(write_lake(tmp_path, days))
    assert "nan" not in re.findall(r"\w+", found.lower())
    assert {one.attributes["id"] for one in read(found)[0].find_all("section")} >= {"events", "jobs", "data"}


@pytest.mark.parametrize("name", _NAMES, ids=range(len(_NAMES)))
def test_page_escapes_all_names(name: str, tmp_path: Path) -> None:
    shape = Counter(
        one.name for one in read(page(write_lake(tmp_path / "a", {_DAY: one_row_per_table(_DAY, "plain")})))[1]
    )
    found = page(write_lake(tmp_path / "b", {_DAY: one_row_per_table(_DAY, name)}), {1: name})
    root, elements = read(found)
    of_name = Counter(one.name for one in elements)
    # The tooltip has the whole name.
    assert {**of_name, "title": 0} == {**shape, "title": 0}
    assert not any(attribute.startswith("on") for one in elements for attribute in one.attributes)
    shown = " ".join(name.replace("\x00", "\ufffd").replace("\u202e", "\ufffd").split())
    assert root.find_all("h1")[0].text_content == shown
    first = table(found, "Job types, by runs")[1][0]
    assert first == shown if len(shown) <= 60 else first == shown[:59] + "…"
    assert any(one.attributes.get("title") == shown for one in elements) == (len(shown) > 60)
    chart = next(one for one in root.find_all("svg") if "Slowest" in str(one.attributes["aria-label"]))
    assert shown in chart.text_content


@pytest.mark.parametrize("name", ["plain", "https://evil.example/x.js", "url(http://evil.example)"])
def test_page_makes_no_requests(name: str, tmp_path: Path) -> None:
    _, elements = read(page(write_lake(tmp_path, {_DAY: one_row_per_table(_DAY, name)})))
    assert not {"script", "link", "img", "iframe", "object", "image", "base"} & {one.name for one in elements}
    policy = next(one for one in elements if one.attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    (style,) = (one for one in elements if one.name == "style")
    assert not re.search(r"url\(|@import|//", style.text)
    for one in elements:
        assert all(
            re.fullmatch(r"url\(#[\w-]+\)", url)
            for url in re.findall(r"url\([^)]*\)", one.attributes.get("style") or "")
        )
        for attribute in ("href", "xlink:href", "src"):
            assert re.fullmatch(r"(#[\w-]+|\w+/server=1/)?", one.attributes.get(attribute) or ""), one.attributes


def test_page_contains_no_urls(tmp_path: Path) -> None:
    found = page(write_lake(tmp_path, {_DAY: one_row_per_table(_DAY)}))
    assert not re.search(r"https?://|<script|javascript:", found)


def test_page_same_data_gives_same_bytes(tmp_path: Path) -> None:
    days = {day: one_row_per_table(day) for day in ("2026-09-01", "2026-10-30", _DAY)}
    one, other = (page(write_lake(tmp_path / name, days)) for name in ("one", "other"))
    assert one == other
    write_pages(write_lake(tmp_path / "one", {}), {}, datetime(2026, 12, 24, 18, tzinfo=UTC), changed={1})
    later = (tmp_path / "one/reports/report-1.html").read_text()
    assert later == one.replace("2026-11-01 07:30", "2026-12-24 18:00")


def test_page_is_accessible(tmp_path: Path) -> None:
    root, elements = read(page(write_lake(tmp_path, {_DAY: one_row_per_table(_DAY)})))
    levels = [int(one.name[1]) for one in elements if re.fullmatch(r"h\d", one.name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [one.attributes["id"] for one in elements if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    targets = {
        str(one.attributes["href"])[1:] for one in elements if str(one.attributes.get("href", "")).startswith("#")
    }
    assert targets <= set(ids)
    assert all(one.attributes["role"] == "img" and one.attributes["aria-label"] for one in root.find_all("svg"))
    assert len(root.find_all("figure")) == len(root.find_all("figcaption")) > 8
    assert len(root.find_all("table")) == len(root.find_all("caption")) > 8
    assert all(one.attributes["scope"] in ("col", "row") for one in root.find_all("th"))
    assert root.find_all("html")[0].attributes["lang"] == "en"


def test_charts_use_css_variables_of_page(tmp_path: Path) -> None:
    root, _ = read(page(write_lake(tmp_path, {_DAY: one_row_per_table(_DAY)})))
    styles = [
        str(inner.attributes.get("style", ""))
        for svg in root.find_all("svg")
        for inner in svg.find_all("path") + svg.find_all("text")
    ]
    used = {value for style in styles for value in re.findall(r"(?:fill|stroke): ([^;]+)", style)}
    variables = set(re.findall(r"(--[\w-]+):", root.find_all("style")[0].text))
    assert used
    assert all(one == "none" or one.removeprefix("var(").removesuffix(")") in variables for one in used), used
