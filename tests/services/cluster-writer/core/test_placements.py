"""Each placement that was seen ends once, whatever the view went through."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.cluster_writer.core.placements import Placements
from berth.contracts.state import Pod

NAME = ("ns", "p")


def pod(uid: str = "u", *, node: str = "n", phase: str = "Running", name: str = "p", version: int = 1) -> Pod:
    return Pod(namespace="ns", name=name, uid=uid, version=version, node=node, plan="plan" if node else "", phase=phase)


def live() -> tuple[Placements, list[tuple[str, str]]]:
    ends: list[tuple[str, str]] = []
    placements = Placements(lambda pod, reason: ends.append((pod.uid, reason)))
    placements.end({}, 1)
    return placements, ends


def test_a_bound_pod_that_is_deleted() -> None:
    placements, ends = live()
    placements.seen(NAME, pod())
    placements.gone(NAME)
    placements.gone(NAME)
    assert ends == [("u", "deleted")]


def test_a_pod_that_finishes_ends_then_and_not_when_it_is_deleted() -> None:
    placements, ends = live()
    placements.seen(NAME, pod())
    placements.seen(NAME, pod(phase="Succeeded"))
    placements.seen(NAME, pod(phase="Succeeded"))
    placements.gone(NAME)
    assert ends == [("u", "succeeded")]


def test_a_pod_that_never_had_a_node_does_not_end() -> None:
    placements, ends = live()
    placements.seen(NAME, pod(node="", phase="Pending"))
    placements.gone(NAME)
    assert (ends, list(placements.doubts)) == ([], [])


def test_another_pod_of_the_name_ends_the_first() -> None:
    placements, ends = live()
    placements.seen(NAME, pod("u"))
    placements.seen(NAME, pod("v"))
    assert ends == [("u", "deleted")]
    placements.gone(NAME)
    assert ends[1:] == [("v", "deleted")]


def test_a_view_that_begins_anew_and_is_older_ends_nothing() -> None:
    """STATE has lost its newest messages, and says so only once cluster-watcher has noticed."""
    placements, ends = live()
    placements.seen(NAME, pod("v", version=9))
    placements.reset()
    placements.gone(NAME, 5)
    placements.seen(NAME, pod("u", version=4))
    placements.end({NAME: pod("u", version=4)}, 6)
    assert ends == []
    placements.end({}, 8)
    assert ends == []
    placements.end({}, 9)
    assert ends == [("v", "deleted")]


def test_what_a_beginning_view_cannot_know_is_a_doubt() -> None:
    ends: list[tuple[str, str]] = []
    placements = Placements(lambda pod, reason: ends.append((pod.uid, reason)))
    placements.gone(("ns", "deleted"))
    placements.seen(("ns", "done"), pod("d", phase="Failed", name="done"))
    placements.seen(NAME, pod())
    placements.end({NAME: pod()}, 1)
    assert (ends, list(placements.doubts)) == ([], [("ns", "deleted"), ("ns", "done")])
    assert placements.reason(("ns", "deleted"), "x") == "deleted"
    assert placements.reason(("ns", "done"), "d") == "failed"
    assert placements.reason(NAME, "u") == ""


def test_a_view_that_starts_over_ends_what_is_missing_once_it_is_complete() -> None:
    placements, ends = live()
    placements.seen(NAME, pod())
    placements.seen(("ns", "q"), pod("v", name="q"))
    placements.reset()
    placements.seen(("ns", "q"), pod("v", name="q"))
    placements.end({("ns", "q"): pod("v", name="q")}, 0)
    assert ends == []
    placements.end({("ns", "q"): pod("v", name="q")}, 1)
    assert ends == [("u", "deleted")]


STEP = st.one_of(
    st.tuples(st.just("seen"), st.sampled_from("uvw"), st.sampled_from(["", "Running", "Succeeded", "Failed"])),
    st.tuples(st.sampled_from(["gone", "restart"]), st.just(""), st.just("")),
)


@settings(max_examples=100)
@given(st.lists(STEP, max_size=30))
def test_no_placement_ends_twice_and_none_that_is_over_is_held(steps: list[tuple[str, str, str]]) -> None:
    """A uid is never used again, a pod that has finished or got a node stays so: as Kubernetes has it."""
    placements, ends = live()
    bound: set[str] = set()
    past: set[str] = set()
    now: Pod | None = None
    for what, uid, phase in steps:
        if what == "seen":
            if uid in past or (
                now and now.uid == uid and (now.phase in ("Succeeded", "Failed") or (now.node and not phase))
            ):
                continue
            if now and now.uid != uid:
                past.add(now.uid)
            now = pod(uid, node="n" if phase else "", phase=phase)
            bound |= {uid} if phase else set()
            placements.seen(NAME, now)
        elif what == "gone":
            past |= {now.uid} if now else set()
            now = None
            placements.gone(NAME)
        else:
            placements.reset()
            if now:
                placements.seen(NAME, now)
            placements.end({NAME: now} if now else {}, 1)
    placements.gone(NAME)
    assert sorted(uid for uid, _ in ends) == sorted(bound)
