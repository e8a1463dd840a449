"""`python -m tests.console.screenshots` takes screenshots of each view in both themes, for the docs.

Starts a server with a month of demo events and some running jobs. Adds a report if Spark is installed.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Literal

from playwright.sync_api import Page, sync_playwright

from infra.tools.demo.__main__ import fill
from infra.tools.demo.month import DemoSpec
from tests.console.browsing import DESKTOP, PHONE, Console, browser, publish
from tests.serving import JWT_KEY, ROOT, Member, run_server

FOLDER = ROOT / "docs" / "screenshots"
SPARK = ROOT / ".venv-spark" / "bin" / "python"
EVENTS = 40_000
ORGANIZATION = "local"
A_SECOND = 24.0
LOOK_S = 40.0
"""How long the feed runs before the screenshot, so that the rate chart is filled."""
JOB_TYPES = ("backup", "import", "build", "deploy", "replicate")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        fill(data_dir, ORGANIZATION, DemoSpec(1, time.time_ns() // 1_000_000, EVENTS))
        with run_server(data_dir) as server, sync_playwright() as playwright, browser(playwright) as launched:
            member = server.member(ORGANIZATION)
            _make_report(data_dir)
            _configure(member)
            with _busy(member):
                time.sleep(LOOK_S)
                for scheme in ("light", "dark"):
                    context = launched.new_context(viewport=DESKTOP, color_scheme=scheme, reduced_motion="reduce")
                    _take_all(Console(context), member, scheme)
                    context.close()


def _take_all(console: Console, member: Member, scheme: Literal["light", "dark"]) -> None:
    page = console.page
    page.goto(member.server.url)
    page.get_by_label("Token", exact=True).wait_for()
    _take(page, f"sign-in-{scheme}")
    for name, (place, prepared) in _views(member).items():
        console.open(member, place)
        prepared(page)
        _take(page, f"{name}-{scheme}")
    page.set_viewport_size(PHONE)
    console.open(member, "#/live")
    _seen(".rows-row:nth-child(9)")(page)
    _take(page, f"phone-{scheme}")
    page.set_viewport_size(DESKTOP)


def _views(member: Member) -> Mapping[str, tuple[str, Callable[[Page], None]]]:
    """The address of each screenshot, and the element to wait for."""
    push = _first(member, "pushJob", "timed_out") or _first(member, "pushJob", "complete")
    jobset, job = _first(member, "jobset", "finished"), _first(member, "job", "finished")
    return {
        "live": ("#/live", _with_an_event_open),
        "objects": ("#/objects/job", _seen(".rows-row:nth-child(9)")),
        "job": (f"#/objects/job{job}", _back_in_time),
        "jobset": (f"#/objects/jobset{jobset}", _seen(".timeline rect.span")),
        "push-job": (f"#/objects/pushJob{push}", _seen(".timeline rect.span")),
        "observers": ("#/observers/ops", _seen(".mail-frame")),
        "reports": ("#/reports/report" if SPARK.exists() else "#/reports", _seen("main h1")),
        "system": ("#/system", _seen(".tiles")),
        "api": ("#/api/events", _seen(".operation")),
    }


def _take(page: Page, name: str) -> None:
    page.wait_for_timeout(1_500)
    page.screenshot(path=FOLDER / f"{name}.png")
    print(f"docs/screenshots/{name}.png")


def _seen(selector: str) -> Callable[[Page], None]:
    return lambda page: page.locator(selector).first.wait_for()


def _with_an_event_open(page: Page) -> None:
    """The rate of a minute, and an open event beside the list."""
    _seen(".rows-row:nth-child(9)")(page)
    page.wait_for_timeout(LOOK_S * 1_000)
    page.get_by_role("row").filter(has_text="job/finish").first.click()
    page.locator(".neighbours li").nth(3).wait_for()


def _back_in_time(page: Page) -> None:
    _seen(".timeline rect.span")(page)
    slider = page.get_by_label("Time travel: state after event")
    slider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    page.evaluate("document.activeElement.blur()")


def _first(member: Member, collection: str, state: str) -> str:
    found = member.get(f"/objects/{collection}", params={"brief": "yes", "state": state, "limit": 1}).json()["elements"]
    return str(found[0]["path"]) if found else ""


def _make_report(data_dir: Path) -> None:
    if SPARK.exists():
        environment = {"PATH": "/usr/bin:/bin", "DATA_DIR": str(data_dir), "JWT_KEY": JWT_KEY}
        command = [sys.executable, "-m", "infra.server.commands.report"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)


def _configure(member: Member) -> None:
    mail = {"from": "annals@example.org", "to": "ops@example.org"}
    about = {"types": ["job/finish/*", "job/clean/*"]}
    member.request("PUT", "/observers/ops", json={"channel": "mail", **about, "config": mail})
    member.request("PUT", "/observers/my-jobs", json={"channel": "app", "scope": "private", "events": "create, finish"})


@contextmanager
def _busy(member: Member) -> Iterator[None]:
    """Publish jobs until the screenshots are taken."""
    over = threading.Event()
    thread = threading.Thread(target=_work, args=(member, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _work(member: Member, over: threading.Event) -> None:
    chance, number = Random(7), 800_000
    going: list[dict[str, Any]] = []
    while not over.wait(chance.uniform(0.2, 1.8) / A_SECOND * 4):
        number += 1
        job = {"node": f"worker-{chance.randint(1, 5)}", "id": number, "type": chance.choice(JOB_TYPES)}
        going.append({**job, "props": {"author": chance.choice(["anna", "bela", "chen"])}})
        told = [{**going[-1], "event": "create"}]
        for one in chance.sample(going, min(len(going), 3)):
            log = {"message": f"Loaded file {chance.randint(1, 400)}", "level": 0, "tag": one["type"]}
            told.append(
                {**one, "event": "progress", "state": "running", "progress": f"{chance.randint(5, 95)}%", "log": log}
            )
        if len(going) > 12:
            success = "0" if chance.random() < 0.12 else "1"
            ended = going.pop(chance.randrange(6))
            message = f"{ended['type']} {'done' if success == '1' else 'failed: 3 of 2,184 checks failed'}"
            told.append({**ended, "event": "finish", "success": success, "message": message})
        publish(member, *told, vocabulary="job")


if __name__ == "__main__":
    main()
