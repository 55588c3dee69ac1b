"""Who may not be evicted, whatever the plan says."""

from __future__ import annotations

from berth.cluster_writer.core.victims import RunningGangs, leaving_together, why_stays
from berth.contracts import names
from berth.contracts.state import Pod, PodGroup, PodTemplate, Reservation
from berth.testing.builders import pod


def group(**annotations: str) -> PodGroup:
    return PodGroup(namespace="default", name="g", uid="u", version=1, min_member=2, annotations=annotations)


NON_STRICT = {names.ANNOTATION_GANG_MODE: "NonStrict"}


def judged(
    victim: Pod,
    chosen: set[str],
    groups: dict[tuple[str, str], PodGroup] | None = None,
    others: list[Pod] | None = None,
) -> str:
    running = RunningGangs()
    for each in [victim, *(others or [])]:
        running.see((each.namespace, each.name), each)
    return why_stays(victim, chosen | {victim.uid}, groups or {}, running)


def test_a_single_pod_may_leave() -> None:
    assert judged(pod("p").on("n").build(1), set()) == ""
    assert judged(pod("p").on("n").build(1), set(), {("default", "g"): group()}) == ""


def test_a_protected_one_stays() -> None:
    assert judged(pod("p").set(mirror=True).on("n").build(1), set()) == "default/p is protected: mirror pod"


def test_a_reservation_counts_and_keeps_its_gang_where_it_is() -> None:
    template = PodTemplate(annotations={names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: "2"})
    there = Reservation(name="r", uid="uid-r", version=9, template=template, phase="Available", node="n")
    first, second, *_ = members(2)

    def why(*leaving: Pod) -> str:
        running = RunningGangs()
        for each in (first, second):
            running.see((each.namespace, each.name), each)
        running.see(("", "r"), there)
        return why_stays(first, {each.uid for each in leaving}, {}, running)

    assert why(first) == ""
    assert why(first, second) == "default/p0 leaves 1 of the strict gang default/g, which needs 2"


def members(count: int, **settings: str) -> list[Pod]:
    return [pod(f"p{at}").gang("g", 2, **settings).on("n").build(at + 1) for at in range(count)]


def test_a_strict_gang_leaves_whole_or_keeps_what_it_needs() -> None:
    first, second, third = members(3)
    assert judged(first, set(), others=[second, third]) == ""
    assert judged(first, {second.uid, third.uid}, others=[second, third]) == ""
    assert (
        judged(first, {second.uid}, others=[second, third])
        == "default/p0 leaves 1 of the strict gang default/g, which needs 2"
    )


def test_members_that_have_ended_or_leave_already_do_not_count() -> None:
    first, *_ = members(1)
    leaving = pod("p1").gang("g", 2).on("n").set(deleting=True).build(2)
    ended = pod("p2").gang("g", 2).on("n").set(phase="Succeeded").build(3)
    assert judged(first, set(), others=[leaving, ended]) == ""


def test_a_pod_group_speaks_for_its_members() -> None:
    first, second = members(2)
    loose = members(2, mode="NonStrict")
    assert judged(first, set(), {("default", "g"): group(**NON_STRICT)}, [second]) == ""
    assert judged(loose[0], set(), {("default", "g"): group()}, loose[1:]) != ""
    assert judged(loose[0], set(), {}, loose[1:]) == ""
    assert judged(loose[0], set(), {("elsewhere", "g"): group()}, loose[1:]) == ""


def test_those_of_one_strict_gang_go_one_after_the_other() -> None:
    first, second = members(2)
    other = pod("a").on("n").build(9)
    assert leaving_together([first, other, second], {}) == [[first, second], [other]]


def test_a_gang_is_forgotten_with_its_last_member() -> None:
    running = RunningGangs()
    (first,) = members(1)
    running.see(("default", "p0"), first)
    assert list(running.staying("default/g")) == [first]
    running.see(("default", "p0"), None)
    assert list(running.staying("default/g")) == []
