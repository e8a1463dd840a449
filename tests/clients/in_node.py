"""npm's eventsource, in Node."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.clients.following import HERE, MODULES, Errand
from tests.clients.notes import PATIENCE_S, Notes


class NodeEventSource:
    """It comes back by itself, after three seconds if it is not told otherwise."""

    name = "eventsource in Node"

    def missing(self) -> str | None:
        """Node, or the package."""
        if shutil.which("node") is None:
            return "node is not installed"
        return None if (MODULES / "eventsource").exists() else "npm's eventsource is not installed; `make test` does it"

    @contextmanager
    def following(self, errand: Errand) -> Iterator[None]:
        """One process for all feeds."""
        errand.begin(self.name)
        command = ["node", str(HERE / "in_node.js"), json.dumps(errand.as_json())]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        thread = threading.Thread(target=self._listen, args=(process, errand.notes), daemon=True)
        thread.start()
        try:
            yield
        finally:
            process.kill()
            thread.join(PATIENCE_S)
            process.wait()

    def _listen(self, process: "subprocess.Popen[str]", notes: Notes) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                notes.tell(self.name, json.loads(line))
