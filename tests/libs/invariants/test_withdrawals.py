"""Members of a gang that are withdrawn while it is bound: only for a reason, which excuses until it is whole again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pytest
from tests.libs.invariants.stage import gang, stage
from tests.libs.invariants.story import Json, Story

from berth.contracts import names
from berth.contracts.ledger import Allocation, GangRef

LONG_S = 100.0


def half_bound(*, minors: Mapping[int, int] = {}, **amounts: int) -> Story:
    """g1 is bound to n1, g2 decided for n2."""
    story = stage()
    gang(story, 2)
    ref = GangRef(name="default/g", size=2)
    taken = {"allocation": Allocation(amounts=amounts)} if amounts else {}
    story.commit(story.decision("g1", gang=ref), story.decision("g2", "n2", minors, gang=ref, **taken))
    story.bind("g1")
    story.wait(1)
    return story


def offers(story: Story, **amounts: str) -> None:
    story.change("nodes", "n2", {"status": {"allocatable": amounts}})


def node_gone(story: Story) -> None:
    story.delete("nodes", "n2")


def node_going(story: Story) -> None:
    story.change("nodes", "n2", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    story.wait(LONG_S)


def node_gone_for_a_moment(story: Story) -> None:
    story.delete("nodes", "n2")
    story.node("n2")


def node_offers_less(story: Story) -> None:
    offers(story, cpu="500m")


def node_takes_fewer_pods(story: Story) -> None:
    offers(story, pods="0")
    story.wait(LONG_S)


def stranger(story: Story, cpu: str = "8") -> None:
    story.pod("theirs", cpu)
    story.change("pods", "theirs", {"spec": {"schedulerName": "default-scheduler"}})
    story.objects["pods"]["theirs"]["metadata"]["uid"] = "uid-of-theirs"
    story.change("pods", "theirs", {"spec": {"nodeName": "n2"}})


def stranger_that_stays(story: Story) -> None:
    stranger(story)
    story.wait(LONG_S)


def stranger_that_left(story: Story) -> None:
    stranger(story)
    story.wait(LONG_S)
    story.delete("pods", "theirs")


def epoch_under_way(story: Story) -> None:
    story.current = 2
    story.lease("")
    story.wait(LONG_S)


def epoch_just_begun(story: Story) -> None:
    story.current = 2
    story.lease("")
    story.epoch(2)


def member_ended(story: Story) -> None:
    story.change("pods", "g2", {"status": {"phase": "Failed"}})


def less_offered_for_a_moment(story: Story) -> None:
    offers(story, cpu="500m")
    offers(story, cpu="8")


REASONS: list[Callable[[Story], None]] = [
    node_gone,
    node_going,
    node_gone_for_a_moment,
    node_offers_less,
    node_takes_fewer_pods,
    stranger_that_stays,
    stranger_that_left,
    epoch_under_way,
    epoch_just_begun,
    member_ended,
]
REASONS_THAT_PASS: list[Callable[[Story], None]] = [
    node_gone_for_a_moment,
    less_offered_for_a_moment,
    stranger_that_left,
    epoch_just_begun,
]


@pytest.mark.parametrize("reason", REASONS, ids=lambda each: each.__name__)
def test_a_member_withdrawn_for_a_reason_leaves_the_gang_half_there(reason: Callable[[Story], None]) -> None:
    story = half_bound()
    story.observer.trouble(LONG_S)
    reason(story)
    story.withdraw("g2")
    story.wait(LONG_S)
    story.wait(LONG_S)
    assert [each for each in story.broken if each == "I3"] == []
    assert story.observer.world().excused_gangs == {"default/g"}


@pytest.mark.parametrize("reason", REASONS_THAT_PASS, ids=lambda each: each.__name__)
def test_what_everybody_knows_to_be_over_is_no_reason(reason: Callable[[Story], None]) -> None:
    story = half_bound()
    story.observer.trouble(LONG_S)
    reason(story)
    story.wait(LONG_S)
    story.wait(LONG_S)
    story.observer.gangs.excused.clear()
    story.withdraw("g2")
    assert story.observer.world().excused_gangs == frozenset()


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_member_withdrawn_for_no_reason_does_not(is_seen: bool) -> None:
    story = half_bound()
    if is_seen:
        story.delete("nodes", "n1")  # another member's
        story.wait(1)
    story.withdraw("g2")
    story.wait(31)
    assert story.broken == ["I3"]


def decided_in_a_new_epoch(story: Story) -> None:
    epoch_just_begun(story)
    story.observer.gangs.excused.clear()
    story.place("g2", "n2")


def stranger_that_fits_beside_it(story: Story) -> None:
    stranger(story, "1")


def stranger_that_fitted_beside_it_and_left(story: Story) -> None:
    stranger(story, "1")
    story.delete("pods", "theirs")


def offer_of_what_it_does_not_ask_for(story: Story) -> None:
    offers(story, memory="8Gi")
    story.wait(1)
    offers(story, memory="4Gi")


def offer_that_still_holds_all(story: Story) -> None:
    offers(story, cpu="7")


def more_offered(story: Story) -> None:
    offers(story, cpu="64")


def card_that_it_does_not_take(story: Story) -> None:
    story.health("n2", True, False)
    story.health("n2", True, True)


def stranger_on_another_card(story: Story) -> None:
    stranger(story, "1")
    story.delete("pods", "theirs")
    story.put("pods", "theirs", on_card(1), "default")


@pytest.mark.parametrize(
    "matter",
    [
        decided_in_a_new_epoch,
        stranger_that_fits_beside_it,
        stranger_that_fitted_beside_it_and_left,
        offer_of_what_it_does_not_ask_for,
        offer_that_still_holds_all,
        more_offered,
        card_that_it_does_not_take,
        stranger_on_another_card,
    ],
    ids=lambda each: each.__name__,
)
def test_what_does_not_concern_the_decision_is_no_reason(matter: Callable[[Story], None]) -> None:
    story = half_bound(minors={0: 100})
    matter(story)
    story.withdraw("g2")
    assert story.observer.world().excused_gangs == frozenset()


def card_that_it_takes(story: Story) -> None:
    story.health("n2", False, True)
    story.health("n2", True, True)


def stranger_on_its_card(story: Story) -> None:
    story.put("pods", "theirs", on_card(0), "default")


def capacity_that_another_decision_held_a_moment_ago(story: Story) -> None:
    story.place("b", "n2")
    offers(story, cpu="1")
    story.wait(LONG_S)
    story.wait(LONG_S)
    story.withdraw("b")


@pytest.mark.parametrize(
    "matter",
    [
        card_that_it_takes,
        stranger_on_its_card,
        less_offered_for_a_moment,
        capacity_that_another_decision_held_a_moment_ago,
    ],
    ids=lambda each: each.__name__,
)
def test_what_concerns_the_decision_is_a_reason(matter: Callable[[Story], None]) -> None:
    story = half_bound(minors={0: 100})
    matter(story)
    story.withdraw("g2")
    assert story.observer.world().excused_gangs == {"default/g"}


def on_card(minor: int) -> Json:
    """A pod that another scheduler has bound to a card of n2."""
    amounts = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100"}
    note = msgspec.json.encode({"gpu": [{"minor": minor, "resources": amounts}]}).decode()
    spec = {
        "schedulerName": "other",
        "nodeName": "n2",
        "containers": [{"name": "main", "resources": {"requests": amounts}}],
    }
    meta = {"annotations": {names.ANNOTATION_DEVICE_ALLOCATED: note}}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


def test_what_is_reclaimed_of_a_node_may_shrink_below_what_is_held() -> None:
    name = names.BATCH_CPU
    for amounts, excused in (({name: 1000}, {"default/g"}), ({"cpu": 1000}, set())):
        story = half_bound(**amounts)
        offers(story, **{name: "500"})
        story.wait(LONG_S)
        story.observer.gangs.excused.clear()
        story.withdraw("g2")
        assert story.observer.world().excused_gangs == excused


def test_a_node_that_comes_to_offer_less_than_is_held_is_a_reason_as_long_as_it_does() -> None:
    for offered, excused in (("500m", {"default/g"}), ("64", set())):
        story = half_bound(cpu=1000)
        offers(story, cpu=offered)
        story.wait(LONG_S)
        story.observer.gangs.excused.clear()
        story.withdraw("g2")
        assert story.observer.world().excused_gangs == excused


def test_others_of_a_gang_that_cannot_begin_are_withdrawn_with_it() -> None:
    story = stage()
    gang(story, 3)
    ref = GangRef(name="default/g", size=3)
    nodes = {"g1": "n1", "g2": "n1", "g3": "n2"}
    story.commit(*(story.decision(name, node, gang=ref) for name, node in nodes.items()))
    story.delete("nodes", "n2")
    story.withdraw("g3")
    story.wait(5)
    story.withdraw("g2")
    story.bind("g1")
    story.wait(LONG_S)
    assert story.broken == []


def test_a_gang_that_is_whole_again_is_excused_no_more() -> None:
    story = half_bound()
    node_gone(story)
    story.withdraw("g2")
    assert story.observer.world().excused_gangs == {"default/g"}
    story.place("g2")
    story.bind("g2")
    assert story.observer.world().excused_gangs == frozenset()
    assert story.broken == []


def test_what_befell_another_gang_of_the_plan_is_no_reason() -> None:
    story = stage()
    gang(story, 2)
    for number in (1, 2):
        story.pod(f"h{number}", gang="h", minimum=2)
    one, other = GangRef(name="default/g", size=2), GangRef(name="default/h", size=2)
    story.commit(
        *(story.decision(name, gang=one) for name in ("g1", "g2")),
        *(story.decision(name, gang=other) for name in ("h1", "h2")),
    )
    story.bind("g1")
    story.delete("pods", "h1")
    story.wait(5)
    story.withdraw("g2")
    story.wait(100)
    assert story.broken == ["I3"]


@pytest.mark.parametrize("minimum", [1, None])
def test_a_gang_that_asks_for_less_is_not_half_there(minimum: int | None) -> None:
    story = stage()
    story.put("podgroups", "g", {"spec": {"minMember": 2}}, "default")
    for number in (1, 2):
        story.pod(f"g{number}", **{names.LABEL_POD_GROUP: "g"})
    story.gang("g1", "g2")
    story.bind("g1")
    story.wait(20)
    if minimum is None:
        story.delete("podgroups", "g")
    else:
        story.put("podgroups", "g", {"spec": {"minMember": minimum}}, "default")
    story.wait(100)
    assert story.broken == []


def test_a_group_that_is_made_again_does_not_end_what_excused_its_gang() -> None:
    story = stage()
    notes = {names.ANNOTATION_GANG_GROUPS: '["default/g", "default/h"]'}
    for name in "gh":
        story.put("podgroups", name, {"metadata": {"annotations": notes}, "spec": {"minMember": 1}}, "default")
        story.pod(f"{name}1", **{names.LABEL_POD_GROUP: name})
    story.commit(*(story.decision(name, gang=GangRef(name="default/g,default/h", size=2)) for name in ("g1", "h1")))
    story.bind("g1")
    story.bind("h1")
    story.delete("pods", "h1")
    story.delete("podgroups", "g")
    story.put("podgroups", "g", {"metadata": {"annotations": notes}, "spec": {"minMember": 1}}, "default")
    story.wait(LONG_S)
    assert story.broken == []
