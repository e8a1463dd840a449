"""`annals check`: the files of a server on this machine, read and judged."""

import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from annals_client.checks.data import check
from annals_client.checks.findings import LOG, Report
from annals_client.cli.exits import Damaged, Usage
from annals_client.cli.printing import Printer, shown


def check_data(args: Namespace, printer: Printer) -> None:
    """Print what is wrong as it is found, then what there is; raises `Damaged` if anything is wrong."""
    data_dir, report = Path(args.data_dir), Report()
    if not (data_dir / LOG).exists():
        raise Usage(f"there is no {LOG} in {data_dir}. Run this where the server runs, or give --data-dir")
    is_live = sys.stderr.isatty() and not printer.is_json
    for finding in check(data_dir, report, _draw if is_live else _silent):
        _clear(is_live)
        facts = {name: value for name, value in asdict(finding).items() if value is not None}
        printer.told(shown(finding.words), facts)
    _clear(is_live)
    logs = sorted(report.logs.values(), key=lambda log: log.log)
    if printer.is_json:
        printer.value({"sound": not report.findings, "logs": [asdict(log) for log in logs], "do": report.advice})
    else:
        for line in (*(log.words for log in logs), *report.advice):
            printer.line(shown(line))
    if report.findings:
        raise Damaged(f"there is damage in {data_dir}: {', '.join(report.damaged)}")
    if not printer.is_json:
        printer.line("All is sound.")


def _draw(words: str) -> None:
    sys.stderr.write(f"\r{words} ...\x1b[K")
    sys.stderr.flush()


def _silent(words: str) -> None:
    del words


def _clear(is_live: bool) -> None:
    if is_live:
        sys.stderr.write("\r\x1b[K")
