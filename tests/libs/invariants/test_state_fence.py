"""STATE's fence after a loss: what is left of it is not lowered either."""

from __future__ import annotations

from berth.contracts.codec import encode
from berth.contracts.state import Node
from berth.invariants import Observer


def version(number: int) -> bytes:
    return encode(Node(name="n", uid="u", version=number))


def test_what_was_lost_is_written_again_from_any_version() -> None:
    observer = Observer()
    observer.state("node.n", version(9), False)
    observer.state_lost()
    observer.state("node.n", version(8), False)
    assert observer.ok


def test_what_is_left_is_not_lowered() -> None:
    observer = Observer()
    for number in (7, 9):
        observer.state("node.n", version(number), False)
    observer.state_lost([("node.n", version(7), False)])
    observer.state("node.n", version(8), False)
    assert observer.ok
    observer.state("node.n", version(6), False)
    assert [each.promise for each in observer.violations] == ["I12"]
