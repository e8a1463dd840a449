"""Events for the benchmarks: one that is appended repeatedly, and generated AnyJob events. Standard library only."""

import json
import random
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

TYPE = ["job", "finish", "n1", "backup"]
KEY = "/job/117"
DATA: dict[str, Any] = {
    "id": 117,
    "jobset": 9,
    "node": "n1",
    "type": "backup",
    "success": "1",
    "message": "backup of /srv/data finished: 1204 files, 18.3 MB",
    "params": {"path": "/srv/data", "keep": "7"},
}
DATA_TEXT = json.dumps(DATA, separators=(",", ":"))
"""About 200 bytes together with type and key."""

_NODES = [f"{site}{number:02}" for site in ("db", "web", "app", "store", "batch") for number in range(1, 13)]
_AUTHORS = ["anna", "ben", "carla", "dmitri", "eve", "farid", "grete", "hugo"]
_JOBS: dict[str, tuple[dict[str, list[str]], list[str]]] = {
    "backup": (
        {"path": ["/srv/data", "/var/lib/mysql", "/home", "/etc"], "keep": ["7", "14", "30"]},
        [
            "snapshot of {x} taken",
            "copied {n} files, {m} MB",
            "archive {h} written to /backup/{h}.tar",
            "checksum of {x} is {h}",
        ],
    ),
    "deploy": (
        {"package": ["shop", "billing", "search", "gateway"], "version": ["4.12.0", "4.12.1", "5.0.0-rc2"]},
        [
            "fetched {x} at {h} in {n} ms",
            "stopped {x}, pid {n}",
            "migration {n} applied in {m} ms",
            "image {h} started",
        ],
    ),
    "reindex": (
        {"index": ["orders", "customers", "articles"], "shards": ["4", "8", "16"]},
        ["shard {n} of {x} rebuilt in {m} s", "{n} documents read from {h}", "merged {m} segments into {h}"],
    ),
    "certificate": (
        {"domain": ["example.org", "shop.example.org", "api.example.org"], "days": ["60", "90"]},
        ["challenge for {x} answered", "certificate {h} issued", "reloaded {m} workers"],
    ),
}
_FAILURES = ["timeout after {n} s", "exit code {m}", "connection to {x} refused", "no space left on {x}"]

_CONCURRENT_JOBS = 12
"""Jobs whose events are interleaved."""


def job_events(number: int, seed: int = 1, steps: int | None = None) -> list[dict[str, Any]]:
    """Generate `number` events of concurrent jobs, in the format of `POST /events`.

    A job has three events plus one per step. The number of steps varies unless `steps` is given.
    """
    rng = random.Random(seed)
    ids = count(rng.randrange(100_000, 200_000))
    return list(islice(_interleave(rng, ids, steps), number))


def _interleave(rng: random.Random, ids: Iterator[int], steps: int | None) -> Iterator[dict[str, Any]]:
    running = [_job(rng, next(ids), steps) for _ in range(_CONCURRENT_JOBS)]
    time_s = 1_794_700_000
    while True:
        place = rng.randrange(len(running))
        time_s += rng.choice((0, 0, 1, 2))
        event = next(running[place], None)
        if event is None:
            running[place] = _job(rng, next(ids), steps)
            continue
        data = event["payload"]["data"]
        data["time"] = time_s
        if "log" in data:
            data["log"]["time"] = time_s
        yield event


def _job(rng: random.Random, job: int, steps: int | None) -> Iterator[dict[str, Any]]:
    """The events of one job: created, progress with log lines, finished."""
    node, kind = rng.choice(_NODES), rng.choice(list(_JOBS))
    choices, messages = _JOBS[kind]
    common: dict[str, Any] = {
        "node": node,
        "id": job,
        "type": kind,
        "params": {name: rng.choice(values) for name, values in choices.items()},
        "props": {"author": rng.choice(_AUTHORS), "ticket": f"OPS-{rng.randrange(10_000, 40_000)}"},
    }
    if rng.random() < 0.3:
        common["jobset"] = job // 10

    def event(name: str, **more: Any) -> dict[str, Any]:
        data = {"event": name, "time": 0, **common, **more}
        return {"type": ["job", name, node, kind], "key": f"/job/{job}", "payload": {"type": "json", "data": data}}

    yield event("create")
    yield event("progress", state="run")
    steps = steps or rng.randrange(2, 7)
    for step in range(1, steps + 1):
        log = {"time": 0, "message": _message(rng, messages, common), "level": rng.randrange(4), "tag": kind}
        yield event("progress", progress=f"{step}/{steps}", log=log)
    success = rng.random() < 0.9
    message = "done" if success else _message(rng, _FAILURES, common)
    yield event("finish", success="1" if success else "0", message=message)


def _message(rng: random.Random, templates: list[str], common: dict[str, Any]) -> str:
    first = next(iter(common["params"].values()))
    return rng.choice(templates).format(x=first, n=rng.randrange(1, 20_000), m=rng.randrange(1, 900), h=_hex(rng))


def _hex(rng: random.Random) -> str:
    return f"{rng.getrandbits(48):012x}"
