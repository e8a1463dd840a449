"""Progress: a bar on a terminal, lines elsewhere."""

import io

from infra.tools.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_without_terminal_writes_ten_lines() -> None:
    stream = io.StringIO()
    progress = Progress("Exporting", 1_000, "commits", stream)
    for done in range(1, 1_001):
        progress.update(done)
    progress.finish("Done.")
    lines = [f"Exporting: {done} of 1,000 commits" for done in range(100, 1_000, 100)]
    assert stream.getvalue().splitlines() == [*lines, "Done."]


def test_progress_on_terminal_redraws_one_line() -> None:
    stream = Terminal()
    progress = Progress("Exporting", 4, "commits", stream)
    progress.update(2)
    assert stream.getvalue().startswith(f"\rExporting [{'#' * 20}{'.' * 20}] 2/4 commits, 0 s left")
    progress.finish("Done.")
    assert stream.getvalue().endswith("\r\x1b[KDone.\n")
    assert stream.getvalue().count("\n") == 1


def test_progress_without_work_writes_final_line() -> None:
    stream = io.StringIO()
    progress = Progress("Exporting", 0, "commits", stream)
    progress.update(0)
    progress.finish("Done.")
    assert stream.getvalue() == "Done.\n"
