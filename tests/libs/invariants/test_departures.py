"""Members of a gang that were deleted before its plan, while those who planned and bound could not know."""

from __future__ import annotations

import pytest
from tests.libs.invariants.stage import gang, stage
from tests.libs.invariants.story import Story

from berth.contracts.codec import encode
from berth.contracts.ledger import Decision, GangRef
from berth.contracts.state import Synced
from berth.contracts.subjects import pod_key, synced_key

LONG_S = 45.0
KEY = pod_key("default", "g2")


def shown(story: Story, value: bytes = b"9", *, deleted: bool = True, key: str = KEY) -> None:
    story.observer.state(key, value, deleted)


def marker(complete: bool) -> bytes:
    return encode(Synced(kind="pods", version=9, complete=complete))


def begin(hears_state: bool = True) -> tuple[Story, list[Decision]]:
    """g2 is deleted; what is decided is what somebody makes of both who does not know it."""
    story = stage()
    gang(story, 2)
    if hears_state:
        shown(story, b'{"uid":"uid-g2","version":3}', deleted=False)
    ref = GangRef(name="default/g", size=2)
    decided = [story.decision(name, gang=ref) for name in ("g1", "g2")]
    story.delete("pods", "g2")
    return story, decided


def decide_and_bind(story: Story, decided: list[Decision]) -> list[str]:
    story.commit(*decided)
    story.bind("g1")
    story.wait(LONG_S)
    return story.broken


@pytest.mark.parametrize("wait_s", [0.0, LONG_S])
def test_while_state_does_not_show_it_nobody_can_know(wait_s: float) -> None:
    story, decided = begin()
    story.wait(wait_s)
    assert decide_and_bind(story, decided) == []


@pytest.mark.parametrize(("hidden_s", "broken"), [(0.0, ["I3"]), (30.0, [])])
def test_a_deletion_that_nothing_keeps_from_being_shown_is_known_in_the_end(hidden_s: float, broken: list[str]) -> None:
    story, decided = begin()
    story.observer.blind(hidden_s)
    story.wait(61)
    assert decide_and_bind(story, decided) == broken


def test_two_of_one_name_are_shown_as_gone_by_one_message() -> None:
    story, decided = begin()
    story.pod("g2", uid="uid-in-between", gang="g", minimum=2)
    story.delete("pods", "g2")
    shown(story)
    story.wait(11)
    assert decide_and_bind(story, decided) == ["I3"]


def test_a_pod_that_state_still_has_to_show_as_gone_is_not_known_by_its_successor() -> None:
    story, decided = begin()
    story.pod("g2", uid="uid-in-between", gang="g", minimum=2)
    story.delete("pods", "g2")
    shown(story, b'{"uid":"uid-g2","version":3}', deleted=False)
    story.wait(LONG_S)
    assert decide_and_bind(story, decided) == []


def test_a_deletion_that_state_loses_is_unknown_again() -> None:
    for left, broken in ([], ["I3"]), ([(KEY, b'{"uid":"uid-g2","version":3}', False)], []):
        story, decided = begin()
        shown(story)
        story.wait(11)
        story.observer.state_lost(left)
        assert decide_and_bind(story, decided) == broken


def test_a_moment_after_state_shows_it_a_reader_may_be_behind() -> None:
    story, decided = begin()
    story.wait(LONG_S)
    shown(story)
    story.wait(5)
    assert decide_and_bind(story, decided) == []


def test_then_everybody_has_to_know() -> None:
    story, decided = begin()
    shown(story)
    story.wait(11)
    assert decide_and_bind(story, decided) == ["I3"]


def test_another_pod_of_its_name_shows_it_too() -> None:
    story, decided = begin()
    shown(story, b'{"uid":"uid-g2","version":4}', deleted=False)
    story.wait(LONG_S)
    shown(story, b'{"uid":"uid-new","version":7}', deleted=False)
    story.wait(11)
    assert decide_and_bind(story, decided) == ["I3"]


@pytest.mark.parametrize(("complete", "broken"), [(False, []), (True, ["I3"])])
def test_a_new_state_that_is_complete_without_it_shows_it(complete: bool, broken: list[str]) -> None:
    story, decided = begin()
    story.observer.state_lost()
    shown(story, marker(complete), deleted=False, key=synced_key("pods"))
    shown(story, b"not json", deleted=False, key=synced_key("pods"))
    story.wait(11)
    assert decide_and_bind(story, decided) == broken


def test_an_observer_that_does_not_see_state_gives_it_some_seconds() -> None:
    story, decided = begin(hears_state=False)
    story.wait(5)
    assert decide_and_bind(story, decided) == []
    story, decided = begin(hears_state=False)
    story.wait(11)
    assert decide_and_bind(story, decided) == ["I3"]


def test_a_member_that_was_never_decided_excuses_nothing() -> None:
    story, decided = begin()
    assert decide_and_bind(story, decided[:1]) == ["I3"]
