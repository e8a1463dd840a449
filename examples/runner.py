"""A workflow runner: follows pushes, runs the jobs of a workflow for each, and publishes their progress.

    annals publish git/push --key /repo/web --data '{"revision": "4f2a"}'
    python examples/runner.py examples/workflow.toml

You can start several runners: each push is claimed with an append condition, so exactly one of them runs it. A runner
starts with the oldest retained push and skips those that are already claimed.
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

PUSH_TYPES = "git/push/*"
CLAIM_TYPE = "run/claimed"


@dataclass(frozen=True)
class Runner:
    """Runs the workflow for pushes that no other runner has claimed."""

    annals: Annals
    node: str
    workflow: Mapping[str, Mapping[str, Any]]
    """Jobs by name in order of execution. Each has `steps`, and may list the jobs that it `needs`."""

    def run_all(self, to_now: bool) -> None:
        """Run the workflow for every unclaimed push."""
        for push in self.annals.follow(types=[PUSH_TYPES], to_now=to_now):
            if self._claim(push):
                self._run(push)

    def _claim(self, push: Event) -> bool:
        """Try to claim a push. False if another runner was first."""
        key = f"/run/{push.id}"
        claim = NewEvent(CLAIM_TYPE, key, Json({"node": self.node}))
        try:
            self.annals.publish([claim], condition=Condition([CLAIM_TYPE], [key]))
        except ConditionFailed:
            return False
        return True

    def _run(self, push: Event) -> None:
        """Run the jobs in order as a job set. Annals finishes the set with its last job."""
        jobs = [{"node": self.node, "type": name} for name in self.workflow]
        self._publish_job_event({"event": "createJobSet", "id": job_id(push), "jobs": jobs})
        succeeded: set[str] = set()
        for index, (name, job) in enumerate(self.workflow.items(), start=1):
            facts = {"id": job_id(push, index), "jobset": job_id(push), "type": name}
            self._publish_job_event({"event": "create", **facts})
            missing = set(job.get("needs", ())) - succeeded
            failure = f"needs {', '.join(sorted(missing))}" if missing else self._run_steps(job, facts, push)
            if not failure:
                succeeded.add(name)
            self._publish_job_event(
                {"event": "finish", **facts, "success": "0" if failure else "1", "message": failure or "done"}
            )

    def _run_steps(self, job: Mapping[str, Any], facts: Mapping[str, Any], push: Event) -> str:
        """Run the steps of a job. Returns the reason of a failure, or an empty string."""
        for index, step in enumerate(job["steps"], start=1):
            result = execute_step(step, push)
            log = {"message": f"$ {step}\n{result.stdout}", "level": 1}
            progress = f"{index}/{len(job['steps'])}"
            self._publish_job_event({"event": "progress", **facts, "progress": progress, "log": log})
            if result.returncode:
                return f"{step} exited with {result.returncode}"
        return ""

    def _publish_job_event(self, event: Mapping[str, Any]) -> None:
        self.annals.publish([{"node": self.node, **event}], vocabulary="job")


def execute_step(step: str, push: Event) -> "subprocess.CompletedProcess[str]":
    """Run a step in a shell with the repository and revision in its environment."""
    environment = {**os.environ, **dict(_variables(push))}
    environment.pop("ANNALS_TOKEN", None)  # steps are untrusted code
    command = ["bash", "-eu", "-c", step]
    return subprocess.run(  # noqa: S603  (running the steps of the workflow is the purpose of a runner)
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def job_id(push: Event, index: int = 0) -> int:
    """A unique id for the job set of a push (index 0) and its jobs. A commit has at most 1,000 events."""
    return (push.id.session * 1000 + push.id.instance) * 100 + index


def _variables(push: Event) -> Iterator[tuple[str, str]]:
    yield "REPOSITORY", push.key or ""
    if isinstance(push.payload, Json) and isinstance(push.payload.data, dict):
        yield "REVISION", str(push.payload.data.get("revision", ""))


def main() -> None:
    """Run workflows until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Run a workflow for every push.")
    parser.add_argument("workflow", type=Path)
    parser.add_argument("--node", default=os.uname().nodename)
    parser.add_argument("--no-wait", action="store_true", help="exit when there are no more pushes")
    args = parser.parse_args()
    workflow = tomllib.loads(args.workflow.read_text())["jobs"]
    with Annals(os.environ["ANNALS_URL"], os.environ["ANNALS_TOKEN"]) as annals:
        Runner(annals, args.node, workflow).run_all(to_now=args.no_wait)


if __name__ == "__main__":
    main()
