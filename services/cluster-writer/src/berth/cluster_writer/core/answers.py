"""What an answer to a bind means: the answer table of docs/transaction.md."""

from __future__ import annotations

from enum import Enum

from berth.kube.answer import Answer


class Next(Enum):
    """What the writer does next."""

    DONE = "done"
    """It landed: STATE will show it."""
    LOOK = "look"
    """Look at the pod and judge again."""
    REPEAT = "repeat"
    """Nobody knows, or not now: the same request again, for ever."""
    WITHDRAW = "withdraw"
    """It can never land: give the decision up (R6)."""


def after_bind(answer: Answer) -> Next:
    """Unknown is not failed, not found is not gone (STATE says which); only a plain refusal of the request is one."""
    if answer.ok:
        return Next.DONE
    if answer.conflict or answer.missing:
        return Next.LOOK
    if answer.repeat:
        return Next.REPEAT
    return Next.WITHDRAW


def after_withdrawal(answer: Answer) -> Next:
    """404, 409 and 422 say that the pod is not the one that was judged."""
    if answer.ok:
        return Next.DONE
    if answer.conflict or answer.status in (404, 422):
        return Next.LOOK
    return Next.REPEAT
