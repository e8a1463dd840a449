"""Bodies of commits: finding events by substring without parsing them."""

from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.domain.events.body import find_in_body, join_body, split_body

TEXTS = st.lists(st.text(st.sampled_from('ab[],{}"'), min_size=1, max_size=6), min_size=1, max_size=6)


@given(TEXTS, st.text(st.sampled_from('ab",'), min_size=1, max_size=2))
@example(["a"], "a")
@example(["b", "a", "b", "ba", "ab"], "a")
@example(["a,", ",a", "aa"], "a")
def test_find_in_body_returns_index_and_text_of_matches(texts: list[str], substring: str) -> None:
    body = join_body(texts)
    assert split_body(body) == texts
    assert list(find_in_body(substring, body)) == [
        (index, text) for index, text in enumerate(texts) if substring in text
    ]
