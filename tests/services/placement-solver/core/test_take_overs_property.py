"""Reservations that take over pods, whatever runs: the verifier agrees to what the solver places, and to nothing that
it refuses."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Step
from berth.contracts.state import PodTemplate, Reservation
from berth.rules.reservation_take_over import TAKE_OVER
from berth.testing.builders import gpu_slots, pod
from berth.transaction.claims import Claim

NODES = ("n0", "n1")
OWNERS = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "own"}))]

pods = st.fixed_dictionaries(
    {
        "cpu": st.integers(0, 5),
        "gpus": st.sampled_from([0, 0, 1, 2]),
        "own": st.sampled_from([True, True, False]),
        "affinity": st.sampled_from([None, None, None, {"name": "r0"}]),
        "noted": st.sampled_from(["", "", "uid-r0"]),
    }
)
reservations = st.fixed_dictionaries(
    {
        "cpu": st.integers(1, 8),
        "gpus": st.sampled_from([0, 0, 1, 2, 3]),
        "pods": st.sampled_from([0, 0, 1]),
        "inner": st.sampled_from([0, 0, 1]),
        "options": st.sampled_from([None, ["cpu"], [names.NVIDIA_GPU]]),
        "required": st.booleans(),
        "multiple": st.booleans(),
        "once": st.sampled_from([False, False, True]),
    }
)


def start(run: Any, drawn: dict[str, Any], number: int) -> None:
    """A pod that Berth has placed; of those that do not fit there is none."""
    builder = pod(f"p{number}").requests(cpu=1000 * drawn["cpu"])
    if drawn["gpus"]:
        builder.requests({names.NVIDIA_GPU: drawn["gpus"]})
    if drawn["own"]:
        builder.label("app", "own")
    run.pod(builder)
    if not run.round().placements:
        run.delete_pod(f"p{number}")
        return
    if drawn["affinity"] is not None:  # as it says by now: it was placed before
        builder.annotation(names.ANNOTATION_RESERVATION_AFFINITY, json.dumps(drawn["affinity"]))
    run.bind(builder)
    if drawn["noted"]:
        note = json.dumps({"name": "r0", "uid": drawn["noted"]})
        run.pod(builder.annotation(names.ANNOTATION_RESERVATION_ALLOCATED, note))


def waiting(drawn: dict[str, Any], number: int, version: int) -> Reservation:
    amounts = {names.CPU: 1000 * drawn["cpu"], names.NVIDIA_GPU: drawn["gpus"], names.PODS: drawn["pods"]}
    notes = {names.ANNOTATION_NODE_RESERVATION: json.dumps({"resources": {"cpu": str(drawn["inner"])}})}
    if drawn["options"] is not None:
        notes[names.ANNOTATION_RESERVATION_RESTRICTED] = json.dumps({"resources": drawn["options"]})
    labels = {names.LABEL_PRE_ALLOCATION_REQUIRED: "true"} if drawn["required"] else {}
    requests = {name: amount for name, amount in amounts.items() if amount}
    return Reservation(
        name=f"r{number}", uid=f"uid-r{number}", version=version, owners=OWNERS, allocate_once=drawn["once"],
        template=PodTemplate(requests=requests, scheduler=names.SCHEDULER_NAME, priority=9), phase="Pending",
        allocate_policy="Restricted", annotations=notes, labels=labels, pre_allocation=True,
        pre_allocation_multiple=drawn["multiple"],
    )  # fmt: skip


def could_take(run: Any, reservation: Reservation) -> list[Claim]:
    """Every claim that takes over one pod, or nobody."""
    found = []
    for node in NODES:
        running = [each for each in run.cluster.book.pods.values() if each.node == node]
        for each in (None, *running):
            before = (
                ()
                if each is None
                else (Step(action=TAKE_OVER, namespace=each.namespace, pod=each.name, pod_uid=each.uid),)
            )
            found.append(
                Claim(
                    name=("", reservation.name),
                    uid=reservation.uid,
                    node=node,
                    amounts=reservation.template.requests,
                    plan="plan",
                    is_reservation=True,
                    before=before,
                )
            )
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(pods, max_size=6), st.lists(reservations, min_size=1, max_size=2))
def test_the_verifier_agrees_with_what_is_taken_over_and_what_is_not(
    solving: Any, there: list[dict[str, Any]], wanted: list[dict[str, Any]]
) -> None:
    run = solving()
    for node in NODES:
        run.node(node, cpu=8000, pods=12)
        run.devices(node, gpu_slots(3))
    for number, drawn in enumerate(there):
        start(run, drawn, number)
    objects = [waiting(drawn, number, run.version + 1 + number) for number, drawn in enumerate(wanted)]
    for each in objects:
        run.reservation(each)
        solution = run.round()  # verified
        for placement in solution.placements:
            taken = {step.pod_uid for step in placement.claim.before if step.action == TAKE_OVER}
            assert taken or not each.labels
            assert len(taken) <= 1 or (each.pre_allocation_multiple and not each.allocate_once)
            assert {user.uid for user in run.cluster.capacity.reserved[each.uid].users.values()} == taken
        if solution.refusals and not each.template.requests.get(names.NVIDIA_GPU):
            assert all(run.verifier.check([claim]) for claim in could_take(run, each))
    for node in NODES:
        claims = list(run.cluster.book.claims_on(node))
        for name in (names.CPU, names.NVIDIA_GPU):
            held = sum(claim.amounts.get(name, 0) for claim in claims if not claim.is_reservation)
            for kept in (claim for claim in claims if claim.is_reservation):
                used = sum(claim.amounts.get(name, 0) for claim in claims if claim.reservation == kept.uid)
                held += max(0, kept.amounts.get(name, 0) - used)
            assert held <= (8000 if name == names.CPU else 3)
