"""Titles of problem documents, which clients may compare."""

import json
from http import HTTPStatus

import pytest

from chalicelib.domain import errors
from chalicelib.http.problems import problem_from_exception


@pytest.mark.parametrize(
    ("error", "title", "phrase"),
    [
        (errors.TooLarge("2,000 events"), "Request Entity Too Large", "Content Too Large"),
        (errors.KeyReused("k"), "Unprocessable Entity", "Unprocessable Content"),
    ],
)
def test_problem_title_is_that_of_older_pythons(
    error: errors.AnnalsError, title: str, phrase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13, which runs the functions on AWS, renamed two statuses. The one-machine server may run on 3.11."""
    response = problem_from_exception(error)
    assert json.loads(response.body)["title"] == title
    monkeypatch.setattr(HTTPStatus(response.status_code), "phrase", phrase)
    assert json.loads(problem_from_exception(error).body)["title"] == title
