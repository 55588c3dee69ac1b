"""What an answer of the API server makes of a command."""

from __future__ import annotations

from typing import Final

from berth.bus.errors import RetryLater
from berth.contracts.errors import InvalidMessage
from berth.kube.answer import NOT_FOUND, Answer

FIELD_MANAGER: Final = "berth-cluster-writer"


class RetryLaterError(RetryLater):
    """The API server could not carry it out now; the command comes again."""


def outcome_of(answer: Answer) -> str:
    """`done` or `overtaken`. Raises RetryLaterError for another try, InvalidMessage for what can never work."""
    if answer.ok:
        return "done"
    if answer.reason == NOT_FOUND or answer.conflict or _is_successor(answer):
        return "overtaken"
    if answer.repeat or answer.missing:  # a 404 that is no API server's own word on the object
        raise RetryLaterError(f"{answer.status} {answer.message}")
    raise InvalidMessage("", f"the API server refuses it: {answer.status} {answer.message}")


def _is_successor(answer: Answer) -> bool:
    """The refusal of a patch because its uid is another object's: some kinds say so as a change of a fixed field."""
    return answer.status == 422 and "metadata.uid" in answer.message
