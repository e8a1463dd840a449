"""Which tests cover which modules. Each module has stages of tests, the nearest and fastest first.

A mutation that the tests of one stage do not notice is tried with the next stage.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

GROUPS: Mapping[str, str] = {
    "domain": "chalicelib/domain",
    "services": "chalicelib/services",
    "adapters": "chalicelib/adapters",
    "server": "infra/server",
}
"""Mutated folders by name."""

_EXTRA: Mapping[str, Sequence[str]] = {
    "chalicelib/adapters/apprise": ["tests/adapters/channels/test_apprise.py"],
    "chalicelib/adapters/dynamodb": ["tests/adapters/dynamodb", "tests/adapters/contract"],
    "chalicelib/adapters/event_bus.py": ["tests/adapters/channels/test_event_bus.py"],
    "chalicelib/adapters/mail": ["tests/adapters/channels"],
    "chalicelib/adapters/queue": ["tests/adapters/channels/test_sqs_outbox.py", "tests/adapters/contract"],
    "chalicelib/adapters/report_pages.py": ["tests/adapters/test_report_pages.py", "tests/http/test_reports.py"],
    "chalicelib/adapters/slack": ["tests/adapters/channels"],
    "chalicelib/adapters/sqlite": ["tests/adapters/sqlite", "tests/adapters/contract", "tests/faults"],
    "chalicelib/adapters/templates": ["tests/adapters/channels"],
    "chalicelib/adapters/webhooks": ["tests/adapters/channels", "tests/notifications/test_webhooks.py"],
    "chalicelib/domain/exports": ["tests/services/exports", "tests/server/test_export.py"],
    "chalicelib/domain/notifications": ["tests/services/notifications", "tests/notifications"],
    "chalicelib/domain/objects": ["tests/services/objects", "tests/http/test_snapshots.py"],
    "chalicelib/domain/organizations": ["tests/services/log"],
    "chalicelib/domain/queries": ["tests/services/reading", "tests/conformance/hat"],
    "chalicelib/domain/redaction.py": ["tests/adapters/channels", "tests/telemetry"],
    "chalicelib/domain/sse.py": ["tests/http/test_feed.py"],
    "chalicelib/domain/views": ["tests/services/consumers", "tests/services/reading"],
    "chalicelib/domain/vocabularies/job": ["tests/conformance/anyjob"],
    "chalicelib/domain/vocabularies/push": [
        "tests/conformance/push/test_jobs.py",
        "tests/conformance/push/test_order.py",
    ],
    "chalicelib/domain/vocabularies/scheduler": ["tests/conformance/jobscheduler"],
    "chalicelib/services/admin": ["tests/server/test_sign_in.py", "tests/http/test_me_and_system.py"],
    "chalicelib/services/consumers": ["tests/notifications"],
    "chalicelib/services/exports": ["tests/lambda_events"],
    "chalicelib/services/feeds": [
        "tests/http/test_feed.py",
        "tests/conformance/push",
        "tests/conformance/jobscheduler",
    ],
    "chalicelib/services/jobs": ["tests/conformance/anyjob"],
    "chalicelib/services/notifications": ["tests/notifications", "tests/attacks"],
    "chalicelib/services/objects": ["tests/http/test_snapshots.py", "tests/http/test_lists.py"],
    "chalicelib/services/reading": ["tests/conformance/hat", "tests/exactness/test_read_costs.py"],
    "infra/server/commands/check": ["tests/faults/test_check.py", "tests/faults/test_damaged_files.py"],
    "infra/server/commands": ["tests/server/test_export.py", "tests/server/test_report.py", "tests/client"],
    "infra/server/observers_file.py": ["tests/notifications/test_observers_file.py"],
    "infra/server/processes": [
        "tests/server/test_supervisor.py",
        "tests/server/test_lifecycle.py",
        "tests/faults/test_workers.py",
        "tests/notifications",
    ],
}
"""Tests that cover a module or folder besides those with its name."""

_LAST: Mapping[str, Sequence[str]] = {
    "domain": ["tests/services", "tests/http"],
    "services": ["tests/http", "tests/exactness/test_regressions.py"],
    "adapters": [],
    "server": ["tests/server", "tests/attacks"],
}
"""The tests of the last stage by group."""


def stages(root: Path, path: str) -> list[list[str]]:
    """The tests to run for a module, in stages."""
    group = next(name for name, folder in GROUPS.items() if path.startswith(folder))
    name = Path(path).stem
    named = sorted(str(test.relative_to(root)) for test in (root / "tests" / group).rglob(f"test_{name}*.py"))
    mirrored = "tests/" + str(Path(path).parent).partition("/")[2]
    near = [mirrored] if (root / mirrored).is_dir() and mirrored != "tests/server" else []
    extra = [test for prefix, tests in _EXTRA.items() if path.startswith(prefix) for test in tests]
    found = [named, [*(["tests/domain"] if group == "domain" else []), *near], extra, list(_LAST[group])]
    return _without_repeats(root, found)


def _without_repeats(root: Path, found: Sequence[Sequence[str]]) -> list[list[str]]:
    """Stages without tests that do not exist, and without empty stages."""
    seen: set[str] = set()
    result = []
    for tests in found:
        new = [test for test in dict.fromkeys(tests) if test not in seen and (root / test).exists()]
        seen.update(new)
        if new:
            result.append(new)
    return result
