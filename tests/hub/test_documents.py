"""The commands of the section about the hub work, on DynamoDB Local."""

import os
import random
import re
import shlex
import signal
import subprocess
import sys

from tests.hub.conftest import hub_environment
from tests.serving import ROOT, TIMEOUT_S
from tests.torture.servers import free_port

SECTION = re.compile(r"^### Run a hub without ECS\n(.*?)^### ", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_commands_about_the_hub_work(dynamodb_local: str, dynamodb_local_tables: tuple[str, str]) -> None:
    section = SECTION.search((ROOT / "docs" / "operations.md").read_text())
    assert section is not None
    serve, health = BLOCK.findall(section[1])
    port, (log_table, views_table) = str(free_port(random.Random())), dynamodb_local_tables
    serve = serve.replace("8000", port).replace("annals-log", log_table).replace("annals-views", views_table)
    serve = serve.replace(".venv/bin/annals", f"exec {shlex.quote(sys.executable)} -m annals_client")
    aws = {name: text for name, text in hub_environment(dynamodb_local, ("", "")).items() if name.startswith("AWS_")}
    environment = {**aws, "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "client")}
    command = ["bash", "-eu", "-c", serve]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(
            f"Annals hub serves http://0.0.0.0:{port}, its tables are {log_table}"
        )
        checked = health.replace("8000", port).replace("curl -s ", "curl -s --fail-with-body ")
        done = subprocess.run(["bash", "-eu", "-c", checked], check=True, capture_output=True, text=True)
        assert done.stdout.startswith('{"status":"ok"')
        running.send_signal(signal.SIGTERM)
        assert running.wait(TIMEOUT_S) == 0
