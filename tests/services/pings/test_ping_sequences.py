"""Random sequences of pings, compared with a model of the rules in docs/pings.md."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.pings.ping import Action, Ping, parse_signal
from chalicelib.domain.vocabularies.job.events import JOB
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.objects.snapshots import snapshot
from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_local


@dataclass
class Model:
    """Node, rid and outcome of each run, in the order of their numbers. None: it is open."""

    runs: list[list[str | None]] = field(default_factory=list)
    notes: int = 0

    def ping(self, ping: Ping) -> None:
        match ping.signal.action:
            case Action.START:
                self._begin(ping, None)
            case Action.LOG:
                self.notes += self._open_run(ping) is None
            case Action.SUCCESS | Action.FAILURE as action:
                outcome = "success" if action is Action.SUCCESS else "failure"
                run = self._open_run(ping)
                if run is None:
                    self._begin(ping, outcome)
                else:
                    run[2] = outcome

    def _begin(self, ping: Ping, outcome: str | None) -> None:
        self.runs.append([ping.node or "ping", ping.rid, outcome])

    def _open_run(self, ping: Ping) -> list[str | None] | None:
        found = None
        for run in self.runs:
            node, rid, outcome = run
            if outcome is None and rid == ping.rid and ping.node in (None, node):
                found = run
        return found


def recorded_runs(components: Components, server: int) -> list[list[str | None]]:
    jobs = snapshot(components.log.reader, server, JOB, PathQuery((PathPattern("/*"),))).states
    numbers = sorted(jobs, key=lambda path: int(path[1:]))
    assert numbers == [f"/{number}" for number in range(1, len(jobs) + 1)]
    states = [jobs[number] for number in numbers]
    return [[state["node"], state["props"].get("rid"), state.get("outcome")] for state in states]


pings = st.builds(
    Ping,
    name=st.just("backup"),
    signal=st.sampled_from([parse_signal(text) for text in ("start", "start", "0", "fail", "7", "log")]),
    node=st.sampled_from([None, None, "n1", "n2"]),
    rid=st.sampled_from([None, None, "a", "b"]),
    may_create=st.just(True),
    body=st.sampled_from([b"", b"a\nb"]),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(pings, max_size=25), st.integers(0, 25))
def test_recorded_runs_agree_with_the_model(sequence: list[Ping], rebuild_after: int) -> None:
    """With the views at any position."""
    with TemporaryDirectory() as folder:
        components = build_local(Settings.from_environment({"DATA_DIR": str(Path(folder)), "JWT_KEY": "k" * 32}))
        server, model = components.log.organizations.create("acme")[0].server, Model()
        for number, ping in enumerate(sequence):
            if number == rebuild_after:
                catch_up(components.consumers.projector, server, components.stores.log, components.stores.views)
            components.pings.recorder.record(server, ping, "cron")
            model.ping(ping)
        events = [event for commit in components.stores.log.read(server, 0) for event in commit.events]
        assert recorded_runs(components, server) == model.runs
        assert sum(event.fields.type[0] == "ping" for event in events) == model.notes
        assert len(list(components.stores.log.read(server, 0))) == len(sequence)
        components.close()
