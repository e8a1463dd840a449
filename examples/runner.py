"""A runner of workflows: follows pushes, runs the jobs of a workflow for each, and reports them to Annals.

    annals publish git/push --key /repo/web --data '{"revision": "4f2a"}'
    python examples/runner.py examples/workflow.toml

Start as many as you like: a push is claimed with an append condition, so one of them runs it. Whoever starts later
begins with the first push that is kept, and passes over what was claimed.
"""

import argparse
import os
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annals_client import Annals, Condition, ConditionFailed, Event, Json, NewEvent

PUSHES = "git/push/*"
CLAIMED = "run/claimed"


@dataclass(frozen=True)
class Runner:
    """One of several that run what is pushed."""

    annals: Annals
    node: str
    workflow: Mapping[str, Mapping[str, Any]]
    """Jobs by name, in the order in which they run: `steps`, and the jobs that it `needs`."""

    def run_all(self, to_now: bool) -> None:
        """Every push that nobody else has claimed."""
        for push in self.annals.follow(types=[PUSHES], to_now=to_now):
            if self._claims(push):
                self._run(push)

    def _claims(self, push: Event) -> bool:
        """Whether this push is ours; of all who try, one is the first."""
        key = f"/run/{push.id}"
        claim = NewEvent(CLAIMED, key, Json({"node": self.node}))
        try:
            self.annals.publish([claim], condition=Condition([CLAIMED], [key]))
        except ConditionFailed:
            return False
        return True

    def _run(self, push: Event) -> None:
        """The jobs one after the other, as a set; Annals finishes the set with its last job."""
        planned = [{"node": self.node, "type": name} for name in self.workflow]
        self._tell({"event": "createJobSet", "id": number_of(push), "jobs": planned})
        succeeded: set[str] = set()
        for place, (name, job) in enumerate(self.workflow.items(), start=1):
            facts = {"id": number_of(push, place), "jobset": number_of(push), "type": name}
            self._tell({"event": "create", **facts})
            missing = set(job.get("needs", ())) - succeeded
            failure = f"needs {', '.join(sorted(missing))}" if missing else self._steps(job, facts, push)
            if not failure:
                succeeded.add(name)
            self._tell({"event": "finish", **facts, "success": "0" if failure else "1", "message": failure or "done"})

    def _steps(self, job: Mapping[str, Any], facts: Mapping[str, Any], push: Event) -> str:
        """Run the steps of a job; why it failed, or nothing."""
        for place, step in enumerate(job["steps"], start=1):
            done = executed(step, push)
            log = {"message": f"$ {step}\n{done.stdout}", "level": 1}
            progress = f"{place}/{len(job['steps'])}"
            self._tell({"event": "progress", **facts, "progress": progress, "log": log})
            if done.returncode:
                return f"{step} ended with {done.returncode}"
        return ""

    def _tell(self, event: Mapping[str, Any]) -> None:
        self.annals.publish([{"node": self.node, **event}], vocabulary="job")


def executed(step: str, push: Event) -> "subprocess.CompletedProcess[str]":
    """Run a step in a shell, with what was pushed in its environment."""
    environment = {**os.environ, **dict(_variables(push))}
    environment.pop("ANNALS_TOKEN", None)  # steps are somebody else's code
    command = ["bash", "-eu", "-c", step]
    return subprocess.run(  # noqa: S603  (to run what the workflow says is what a runner is for)
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def number_of(push: Event, place: int = 0) -> int:
    """The number of a push's set, and of each job in it: another for each, for a commit has 1,000 events at most."""
    return (push.id.session * 1000 + push.id.instance) * 100 + place


def _variables(push: Event) -> Iterator[tuple[str, str]]:
    yield "REPOSITORY", push.key or ""
    if isinstance(push.payload, Json) and isinstance(push.payload.data, dict):
        yield "REVISION", str(push.payload.data.get("revision", ""))


def main() -> None:
    """Run workflows until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Run a workflow for every push.")
    parser.add_argument("workflow", type=Path)
    parser.add_argument("--node", default=os.uname().nodename)
    parser.add_argument("--no-wait", action="store_true", help="end when nothing is left to run")
    args = parser.parse_args()
    workflow = tomllib.loads(args.workflow.read_text())["jobs"]
    with Annals(os.environ["ANNALS_URL"], os.environ["ANNALS_TOKEN"]) as annals:
        Runner(annals, args.node, workflow).run_all(to_now=args.no_wait)


if __name__ == "__main__":
    main()
