"""What can go wrong between services, in three families.

    BerthError
    +-- Refused     the world is fine, the answer is no; carries reasons, normally travels as a value
    +-- Conflict    someone was faster: load again, decide again
    +-- InvalidMessage  input violates the contract: end the message, report the field, go on

Programmers' mistakes are assertions, not members of this tree.
"""

from __future__ import annotations


class BerthError(Exception):
    """Base of every error that Berth raises on purpose."""


class Refused(BerthError):  # noqa: N818 - the name is the answer, not a fault
    """The request is understood and declined; `reasons` says why, one sentence each."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class Conflict(BerthError):  # noqa: N818
    """A guarded write found another version than it expected."""


class InvalidMessage(BerthError):  # noqa: N818
    """A message or object violates the contract; `field` names the place as a path, `problem` what is wrong there."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem
