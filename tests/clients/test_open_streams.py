"""Events come while the stream is open: nothing between the log and the client's code holds them back."""

from tests.clients.feeds import feeds, logged, shown
from tests.clients.following import Client, Errand
from tests.clients.notes import Notes
from tests.clients.publisher import Publisher
from tests.serving import Member


def test_an_event_arrives_while_its_stream_is_still_open(client: Client, member: Member) -> None:
    notes, publisher = Notes(), Publisher(member)
    publisher.start()
    errand = Errand(member.server.url, member.token, feeds(member.organization, after=0), notes)
    with client.following(errand):
        notes.wait_for_event(publisher.last)
        publisher.complete()
        notes.wait_for_event(publisher.last)
        connections = {feed: (diary.opened, diary.lost) for (_, feed), diary in notes.diaries.items()}
    publisher.close()
    assert connections == {feed.name: (1, 0) for feed in errand.feeds}
    assert {feed: diary.seen for (_, feed), diary in notes.diaries.items()} == shown(logged(member))
