"""Progress: a bar where somebody looks, lines where nobody does."""

import io

from infra.tools.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_is_a_line_for_each_tenth_and_one_in_the_end() -> None:
    stream = io.StringIO()
    progress = Progress("Exporting", 1_000, "commits", stream)
    for done in range(1, 1_001):
        progress.to(done)
    progress.end("Done.")
    lines = [f"Exporting: {done} of 1,000 commits" for done in range(100, 1_000, 100)]
    assert stream.getvalue().splitlines() == [*lines, "Done."]


def test_on_a_terminal_there_is_one_line_that_is_drawn_again() -> None:
    stream = Terminal()
    progress = Progress("Exporting", 4, "commits", stream)
    progress.to(2)
    assert stream.getvalue().startswith(f"\rExporting [{'#' * 20}{'.' * 20}] 2/4 commits, 0 s left")
    progress.end("Done.")
    assert stream.getvalue().endswith("\r\x1b[KDone.\n")
    assert stream.getvalue().count("\n") == 1


def test_nothing_to_do_is_done_at_once() -> None:
    stream = io.StringIO()
    progress = Progress("Exporting", 0, "commits", stream)
    progress.to(0)
    progress.end("Done.")
    assert stream.getvalue() == "Done.\n"
