"""The npm package eventsource in Node."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.clients.feed_client import HERE, MODULES, FollowTask
from tests.clients.recorder import TIMEOUT_S, Recorder


class NodeEventSource:
    """Reconnects automatically, by default after three seconds."""

    name = "eventsource in Node"

    def missing(self) -> str | None:
        if shutil.which("node") is None:
            return "node is not installed"
        return None if (MODULES / "eventsource").exists() else "npm's eventsource is not installed; `make test` does it"

    @contextmanager
    def follow(self, task: FollowTask) -> Iterator[None]:
        task.start(self.name)
        command = ["node", str(HERE / "in_node.js"), json.dumps(task.as_json())]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        thread = threading.Thread(target=self._listen, args=(process, task.recorder), daemon=True)
        thread.start()
        try:
            yield
        finally:
            process.kill()
            thread.join(TIMEOUT_S)
            process.wait()

    def _listen(self, process: "subprocess.Popen[str]", recorder: Recorder) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                recorder.record_report(self.name, json.loads(line))
