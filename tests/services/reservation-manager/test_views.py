"""The view of STATE: users, nodes and reservations in any order of arrival, and what is not taken for a reference."""

from __future__ import annotations

import random

import pytest

from berth.bus.port import Entry
from berth.contracts import kube, names, state
from berth.contracts.codec import encode
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Decision, Epoch
from berth.contracts.subjects import EPOCH_KEY, decision_key, named_key, pod_key, synced_key
from berth.reservation_manager.core.life import Life, live
from berth.reservation_manager.views import StateView

STEPS = 150
ANYBODY = LabelSelector()
MARKERS = {
    synced_key(kind): encode(state.Synced(kind=kind, version=1, complete=True))
    for kind in ("pods", "nodes", "reservations")
}


def entry(key: str, value: bytes) -> Entry:
    return Entry(key, value, not value, 1, 0, False, None)


def some_reservation(rng: random.Random, version: int) -> tuple[str, bytes]:
    name = rng.choice("ab")
    reservation = state.Reservation(
        name=name,
        uid=name + rng.choice("12"),
        version=version,
        phase="Available",
        node=rng.choice(("n1", "n2", "")),
        allocatable={"cpu": 5},
        allocate_once=rng.random() < 0.3,
        owners=[ReservationOwner()] if rng.random() < 0.8 else [],
        ttl_s=0.0,
    )
    return named_key("reservation", name), encode(reservation)


def some_node(rng: random.Random, version: int) -> tuple[str, bytes]:
    name = rng.choice(("n1", "n2"))
    node = state.Node(name=name, uid=name, version=version, deleting=rng.random() < 0.2)
    return named_key("node", name), encode(node)


def some_pod(rng: random.Random, version: int) -> tuple[str, bytes]:
    name, uid = rng.choice("pqr"), rng.choice("ab") + rng.choice("12")
    reference = rng.choice((f'{{"name":"a","uid":"{uid}"}}', "junk", "{}"))
    notes = {names.ANNOTATION_RESERVATION_ALLOCATED: reference} if rng.random() < 0.8 else {}
    pod = state.Pod(
        namespace="ns",
        name=name,
        uid=f"{name}{rng.randrange(3)}",
        version=version,
        phase=rng.choice(("", "Running", "Failed")),
        node=rng.choice(("n1", "n2", "")),
        template=state.PodTemplate(requests={"cpu": rng.randrange(5)}, annotations=notes),
    )
    return pod_key("ns", name), encode(pod)


def lives(view: StateView) -> dict[str, Life]:
    return {
        name: live(
            reservation,
            view.users_of(reservation),
            node_is_gone=bool(reservation.node) and view.node_is_gone(reservation.node),
            now=0.0,
        )
        for name, reservation in view.reservations.items()
    }


@pytest.mark.parametrize("seed", range(15))
def test_events_in_any_order_end_in_a_recount_and_mark_every_life_that_changed(seed: int) -> None:
    rng = random.Random(seed)
    marked: set[str] = set()
    view = StateView(marked.add)
    stored = dict(MARKERS)
    for key, value in stored.items():
        view.apply(entry(key, value))
    view.end(1)
    view.decisions.end(1)
    before: dict[str, Life] = {}
    for step in range(STEPS):
        (some,) = rng.choices((some_reservation, some_node, some_pod), (35, 15, 50))
        key, value = some(rng, step)
        if rng.random() < 0.25:
            value = b""
            stored.pop(key, None)
        else:
            stored[key] = value
        marked.clear()
        view.apply(entry(key, value))
        fresh = StateView(lambda _: None)
        for each in rng.sample(sorted(stored), len(stored)):
            fresh.apply(entry(each, stored[each]))
        fresh.end(1)
        fresh.decisions.end(1)
        now = lives(view)
        assert now == lives(fresh), step
        assert {name for name in now.keys() | before.keys() if now.get(name) != before.get(name)} <= marked, (step, key)
        before = now


def test_an_annotation_that_is_nested_too_deeply_names_no_reservation() -> None:
    view = StateView(lambda _: None)
    text = '{"uid":"u","x":' + "[" * 2000 + "]" * 2000 + "}"
    template = state.PodTemplate(annotations={names.ANNOTATION_RESERVATION_ALLOCATED: text})
    pod = state.Pod(namespace="ns", name="p", uid="p", version=1, template=template, node="n")
    view.apply(entry(pod_key("ns", "p"), encode(pod)))
    reservation = state.Reservation(name="r", uid="u", version=1)
    view.apply(entry(named_key("reservation", "r"), encode(reservation)))
    assert view.users_of(reservation) == []


def test_a_forged_note_ends_no_reservation() -> None:
    view = StateView(lambda _: None)
    owner = ReservationOwner(object=kube.ObjectReference(name="meant"))
    reservation = state.Reservation(name="r", uid="u", version=1, phase="Available", node="n", owners=[owner])
    view.apply(entry(named_key("reservation", "r"), encode(reservation)))
    template = state.PodTemplate(annotations={names.ANNOTATION_RESERVATION_ALLOCATED: '{"name":"r","uid":"u"}'})
    for name in ("liar", "meant"):
        pod = state.Pod(namespace="ns", name=name, uid=name, version=1, template=template, node="n")
        view.apply(entry(pod_key("ns", name), encode(pod)))
    assert [user.name for user in view.users_of(reservation)] == ["meant"]


def decision(name: str, reservation: str = "", node: str = "n") -> bytes:
    return encode(
        Decision(
            plan="p",
            namespace="ns",
            name=name,
            uid=name,
            attempt=1,
            node=node,
            pod_version=1,
            basis=1,
            reservation_uid=reservation,
        )
    )


def test_a_decision_counts_while_it_stands() -> None:
    marked: list[str] = []
    view = StateView(marked.append)
    reservation = state.Reservation(
        name="r", uid="u", version=1, phase="Available", node="n", owners=[ReservationOwner(label_selector=ANYBODY)]
    )
    view.apply(entry(named_key("reservation", "r"), encode(reservation)))
    template = state.PodTemplate(annotations={names.ANNOTATION_RESERVATION_ALLOCATED: '{"name":"r","uid":"u"}'})
    pod = state.Pod(namespace="ns", name="p", uid="p", version=1, template=template, node="n")
    view.apply(entry(pod_key("ns", "p"), encode(pod)))

    def uses() -> bool:
        return bool(view.users_of(reservation))

    def shown(key: str, value: bytes) -> bool:
        """Whether the pod uses the Reservation then; that something changed is marked."""
        marked.clear()
        view.decisions.apply(entry(key, value))
        return uses()

    key = decision_key(0, "ns", "p")
    assert uses()
    assert not shown(key, decision("p"))
    assert marked == ["r"]
    assert shown(key, decision("p", "u"))
    assert not shown(key, decision("p", "another"))
    assert not shown(key, b"{")
    assert view.decisions.unreadable == 1, "and what was known stays"
    assert shown(key, b"")
    assert shown(key, decision("p", node="elsewhere")), "it is not on the node that was decided"
    assert shown(decision_key(7, "ns", "p"), decision("p")), "of another epoch"
    shown(key, decision("p"))
    assert shown(EPOCH_KEY, encode(Epoch(epoch=7))), "what was decided before is void"
    assert marked == ["r"]
    assert not shown(decision_key(7, "ns", "p"), decision("p"))
    view.decisions.reset()
    assert uses()


def test_nothing_is_known_before_both_ends_are_reached() -> None:
    completed: list[bool] = []
    view = StateView(lambda _: None, lambda: completed.append(True))
    for key, value in MARKERS.items():
        view.apply(entry(key, value))
    view.end(1)
    assert (view.is_complete, completed) == (False, [])
    view.decisions.end(1)
    assert (view.is_complete, completed) == (True, [True])
    view.decisions.reset()
    assert not view.is_complete
    view.decisions.end(1)
    assert (view.is_complete, completed) == (True, [True, True])
