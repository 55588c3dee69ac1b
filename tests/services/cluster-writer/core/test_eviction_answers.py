"""The answer table of docs/evictions.md."""

from __future__ import annotations

import pytest

from berth.cluster_writer.core.eviction_answers import Heed, after_request, missing_right
from berth.kube.answer import Answer, answer_of

STATUS = b'{"kind":"Status","message":"because"}'


@pytest.mark.parametrize(
    ("status", "heed"),
    [
        (200, Heed.DONE),
        (201, Heed.DONE),
        (400, Heed.REFUSED),
        (401, Heed.REPEAT),
        (403, Heed.REFUSED),
        (404, Heed.LOOK),
        (405, Heed.REFUSED),
        (408, Heed.REPEAT),
        (409, Heed.LOOK),
        (413, Heed.REFUSED),
        (422, Heed.REFUSED),
        (425, Heed.REPEAT),
        (429, Heed.HELD),
        (500, Heed.REPEAT),
        (503, Heed.REPEAT),
    ],
)
def test_what_an_api_server_says(status: int, heed: Heed) -> None:
    assert after_request(answer_of(status, STATUS, "", None)) is heed


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 422, 429, 502])
def test_a_page_is_nobodys_word_on_the_object(status: int) -> None:
    assert after_request(answer_of(status, b"<html>", "", None)) is Heed.REPEAT


def test_what_a_proxy_finds_too_large_stays_so() -> None:
    assert after_request(answer_of(413, b"<html>", "", None)) is Heed.REFUSED


def test_no_answer_is_none() -> None:
    assert after_request(Answer(0, reason="Timeout")) is Heed.REPEAT


@pytest.mark.parametrize(
    ("status", "message", "right"),
    [
        (403, 'pods "p" is forbidden: User "u" cannot delete resource "pods" in API group ""', "delete pods"),
        (
            403,
            'pods "p" is forbidden: User "u" cannot patch resource "pods/status" in API group ""',
            "patch pods/status",
        ),
        (403, 'pods "p" is forbidden: a policy says that you cannot delete it', ""),
        (422, 'User "u" cannot delete resource "pods"', ""),
    ],
)
def test_a_missing_right_has_a_name(status: int, message: str, right: str) -> None:
    body = b'{"kind":"Status","message":"' + message.replace('"', '\\"').encode() + b'"}'
    assert missing_right(answer_of(status, body, "", None)) == right
