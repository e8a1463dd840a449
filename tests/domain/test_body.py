"""Bodies of commits: events are found in them by words, without being parsed."""

from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.domain.events.body import body_of, texts_of, texts_with

TEXTS = st.lists(st.text(st.sampled_from('ab[],{}"'), min_size=1, max_size=6), min_size=1, max_size=6)


@given(TEXTS, st.text(st.sampled_from('ab",'), min_size=1, max_size=2))
@example(["a"], "a")
@example(["b", "a", "b", "ba", "ab"], "a")
@example(["a,", ",a", "aa"], "a")
def test_events_that_hold_some_words_are_found_with_their_numbers(texts: list[str], words: str) -> None:
    body = body_of(texts)
    assert texts_of(body) == texts
    assert list(texts_with(words, body)) == [(number, text) for number, text in enumerate(texts) if words in text]
