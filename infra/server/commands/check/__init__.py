"""`annals check`: check the files of the server on this machine for damage."""

import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from annals_client.cli.exits import DataDamaged, UsageError
from annals_client.cli.printing import Printer, escape_control
from infra.server.commands.check.data_directory import check
from infra.server.commands.check.findings import LOG, Report


def run(args: Namespace, printer: Printer) -> None:
    """Print findings as they are discovered, then a summary. Raises `DataDamaged` if there are any."""
    data_dir, report = Path(args.data_dir), Report()
    if not (data_dir / LOG).exists():
        raise UsageError(f"there is no {LOG} in {data_dir}. Run this on the server's machine, or give --data-dir")
    is_live = sys.stderr.isatty() and not printer.is_json
    for finding in check(data_dir, report, _draw if is_live else _ignore):
        _clear(is_live)
        facts = {name: value for name, value in asdict(finding).items() if value is not None}
        printer.result(escape_control(str(finding)), facts)
    _clear(is_live)
    logs = sorted(report.logs.values(), key=lambda log: log.log)
    if printer.is_json:
        printer.value({"sound": not report.findings, "logs": [asdict(log) for log in logs], "do": report.advice})
    else:
        for line in (*map(str, logs), *report.advice):
            printer.line(escape_control(line))
    if report.findings:
        raise DataDamaged(f"there is damage in {data_dir}: {', '.join(report.damaged_files)}")
    if not printer.is_json:
        printer.line("No damage found.")


def _draw(text: str) -> None:
    sys.stderr.write(f"\r{text} ...\x1b[K")
    sys.stderr.flush()


def _ignore(text: str) -> None:
    del text


def _clear(is_live: bool) -> None:
    if is_live:
        sys.stderr.write("\r\x1b[K")
