from pathlib import Path
from xml.etree import ElementTree

from benchmarks.report import charts, document
from benchmarks.report.charts import Panel
from benchmarks.report.results import Measurement, Results, Row, Table
from benchmarks.report.table import Goal

FACTS = {
    "at": "2026-11-16 10:00",
    "load": 0.2,
    "seconds": 31,
    "cores": 2,
    "processor": "a processor",
    "memory_gb": 25,
    "system": "Linux 6",
    "python": "3.11.7",
    "sync_ms": 0.7,
    "versions": {"UmaDB": "0.7.8"},
}
SVG = "{http://www.w3.org/2000/svg}"


def waiting(size: int, ours: float, theirs: float) -> Measurement:
    row = Row("p50", "ms", {"Annals": ours, "UmaDB": theirs}, (Goal(2, at_most=True, of="UmaDB"),))
    return Measurement("waiting", size, FACTS, (Table("append to a waiting reader", (row,)),))


def test_document_has_largest_size_and_growth(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    document.write(Results([waiting(10_000, 1.0, 1.5), waiting(1_000_000, 4.0, 1.6)]), page)
    text = page.read_text()
    assert "| p50, ms | 4.00 | 1.60 | 2.50 x UmaDB (at most 2: missed) |" in text
    assert "| waiting | 1,000,000 | 2026-11-16 10:00 | 0.2 | 31 |" in text
    assert '(at most 2: missed) |\n\n`make bench ARGS="--only waiting"`, 2026-11-16\n' in text
    assert "2 cores (a processor)" in text
    assert "![append to a waiting reader, by length](charts/append-to-a-waiting-reader-by-length.svg)" in text
    drawing = ElementTree.parse(tmp_path / "charts" / "append-to-a-waiting-reader-by-length.svg").getroot()
    assert len(list(drawing.iter(f"{SVG}circle"))) == 4


def test_document_unmeasured_part_is_marked(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    document.write(Results([waiting(10_000, 1.0, 1.5)]), page)
    section = page.read_text().partition("## Appending")[2].partition("##")[0]
    assert document.ABSENT in section
    assert "|---|" not in section


def test_bars_each_row_has_own_scale() -> None:
    drawing = ElementTree.fromstring(charts.bars([("few", {"Annals": 1, "UmaDB": 2}), ("many", {"Annals": 4e5})]))
    widths = [float(bar.get("width", "")) for bar in drawing.iter(f"{SVG}rect")]
    assert widths == [265.0, 530.0, 530.0]


def test_lines_scale_is_logarithmic() -> None:
    drawing = ElementTree.fromstring(charts.lines([Panel("p50", {"Annals": [(10, 1.0), (100, 10.0), (1000, 100.0)]})]))
    places = [(float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in drawing.iter(f"{SVG}circle")]
    assert places == [(50.0, 182.0), (193.0, 106.0), (336.0, 30.0)]


def test_bars_titles_are_escaped() -> None:
    assert "a &lt;b&gt; &amp; c" in charts.bars([("a <b> & c", {"Annals": 1})])
