"""Refusals of the server: HTTP-like code, JetStream error code and text, as nats-server 2.15 words them."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """One refusal."""

    code: int
    err_code: int
    description: str

    def answer(self) -> dict[str, object]:
        """As it stands in an answer of the API."""
        return {"code": self.code, "err_code": self.err_code, "description": self.description}


class Refusal(Exception):  # noqa: N818 - an answer, caught where it is sent
    """Raised within the server, told to whoever asked."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.description)
        self.problem = problem


BAD_REQUEST = Problem(400, 10003, "bad request")
CONSUMER_EXISTS = Problem(400, 10148, "consumer already exists")
CONSUMER_MISSING = Problem(404, 10014, "consumer not found")
CONSUMER_NOT_UNIQUE = Problem(400, 10100, "filtered consumer not unique on workqueue stream")
CONSUMER_NEEDS_ACKS = Problem(400, 10084, "consumer in pull mode requires explicit ack policy on workqueue stream")
STREAM_MISSING = Problem(404, 10059, "stream not found")
STREAM_EXISTS = Problem(400, 10058, "stream name already in use with a different configuration")
STREAM_NAME_MISMATCH = Problem(400, 10056, "stream name in subject does not match request")
SUBJECTS_OVERLAP = Problem(400, 10065, "subjects overlap with an existing stream")
MESSAGE_MISSING = Problem(404, 10037, "no message found")
DELETE_FORBIDDEN = Problem(500, 10057, "message delete not permitted")
DELETE_MISSING = Problem(500, 10057, "no message found")

STREAM_DIFFERS = Problem(400, 10060, "expected stream does not match")
SEQUENCE_DIFFERS = Problem(400, 10164, "wrong last sequence")
TTL_INVALID = Problem(400, 10165, "invalid per-message TTL")
TTL_DISABLED = Problem(400, 10166, "per-message TTL is disabled")
IN_PROCESS = Problem(409, 10158, "duplicate message id is in process")
TOO_LARGE = Problem(400, 10054, "message size exceeds maximum allowed")
ROLLUP_FORBIDDEN = Problem(500, 10111, "rollup not permitted")

BATCH_DISABLED = Problem(400, 10174, "atomic publish is disabled")
BATCH_WITHOUT_SEQUENCE = Problem(400, 10175, "atomic publish sequence is missing")
BATCH_INCOMPLETE = Problem(400, 10176, "atomic publish batch is incomplete")
BATCH_ID = Problem(400, 10179, "atomic publish batch ID is invalid")
BATCH_COMMIT = Problem(400, 10200, "atomic publish batch commit is invalid")
BATCH_DUPLICATE = Problem(400, 10201, "atomic publish batch contains duplicate message id")
BATCHES_OPEN = Problem(429, 10210, "atomic publish too many inflight")


def wrong_sequence(last: int) -> Problem:
    """A conditional write met another sequence."""
    return Problem(400, 10071, f"wrong last sequence: {last}")


def wrong_message_id(last: str) -> Problem:
    """A conditional write met another message."""
    return Problem(400, 10070, f"wrong last msg ID: {last}")


def rollup_invalid(value: str) -> Problem:
    """Neither "sub" nor "all"."""
    return Problem(500, 10111, f'rollup value invalid: "{value}"')


def store_failed(text: str) -> Problem:
    """No space, by the stream's limits."""
    return Problem(503, 10077, text)


def batch_too_large(limit: int) -> Problem:
    """More messages than a batch may have."""
    return Problem(400, 10199, f"atomic publish batch is too large: {limit}")


def batch_header(name: str) -> Problem:
    """A header that has no meaning in a batch."""
    return Problem(400, 10177, f"atomic publish unsupported header used: {name}")


def update_forbidden(text: str) -> Problem:
    """A setting of a stream that stays as it was made."""
    return Problem(500, 10052, f"stream configuration update can not {text}")


def consumer_update_forbidden(what: str) -> Problem:
    """A setting of a consumer that stays as it was made."""
    return Problem(500, 10012, f"{what} can not be updated")


def bad_json(text: str) -> Problem:
    """A request that cannot be read."""
    return Problem(400, 10025, f"invalid JSON: {text}")
