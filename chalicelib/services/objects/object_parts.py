"""Objects with a long list of parts, such as the jobs of a set, in pages."""

from itertools import islice

from pydantic_core import to_json

from chalicelib.domain.objects.ref import State
from chalicelib.domain.queries.size_limit import SizeLimit


def select_parts(state: State, name: str, after: int, limit: int, page_size: SizeLimit) -> State:
    """The object with some of the parts that it lists under `name`: those after the first `after`, at most `limit`.

    If others follow, the member `next` is the number of parts before them.
    """
    parts = state[name] or []
    page, size_bytes = [], 0
    for part in islice(parts, after, after + limit):
        if size_bytes > page_size.max_bytes:
            break
        page.append(part)
        size_bytes += page_size.measure([to_json(part).decode()])
    end = after + len(page)
    selected = state if len(page) == len(parts) else {**state, name: page}
    return {**selected, "next": end} if end < len(parts) else selected
