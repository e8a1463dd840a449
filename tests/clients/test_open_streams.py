"""Events arrive while the stream is open: nothing buffers them between the log and the client."""

from tests.clients.feed_client import Client, FollowTask
from tests.clients.feeds import expected_events, feeds, read_log
from tests.clients.publisher import Publisher
from tests.clients.recorder import Recorder
from tests.serving import Member


def test_stream_open_receives_events_immediately(client: Client, member: Member) -> None:
    recorder, publisher = Recorder(), Publisher(member)
    publisher.start()
    task = FollowTask(member.server.url, member.token, feeds(member.organization, after=0), recorder)
    with client.follow(task):
        recorder.wait_for_event(publisher.last)
        publisher.complete()
        recorder.wait_for_event(publisher.last)
        connections = {feed: (record.opened, record.lost) for (_, feed), record in recorder.records.items()}
    publisher.close()
    assert connections == {feed.name: (1, 0) for feed in task.feeds}
    assert {feed: record.seen for (_, feed), record in recorder.records.items()} == expected_events(read_log(member))
