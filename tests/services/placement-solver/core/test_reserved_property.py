"""Reservations of every policy on the same nodes: what the solver places on them, the verifier lets pass, and what it
refuses did not fit."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names, subjects
from berth.contracts.kube import LabelSelector, ReservationOwner, Taint
from berth.contracts.state import PodTemplate, Reservation
from berth.reservation_manager.core.life import live
from berth.reservation_manager.core.reserved_capacity import capacity_of
from berth.testing.builders import gpu_slots, pod

NODES = ("n0", "n1")
OWNERS = [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "own"}))]

reservations = st.fixed_dictionaries(
    {
        "node": st.sampled_from(NODES),
        "cpu": st.integers(1, 6),
        "gpus": st.sampled_from([0, 0, 1, 2]),
        "pods": st.sampled_from([0, 0, 1, 2]),
        "inner": st.sampled_from([0, 0, 1, 2]),
        "policy": st.sampled_from(["", "Aligned", "Restricted", "Restricted"]),
        "options": st.sampled_from([None, ["cpu"], ["memory"], [names.NVIDIA_GPU]]),
        "order": st.sampled_from(["", "0", "-2", "3", "x"]),
        "once": st.booleans(),
        "tainted": st.sampled_from([False, False, True]),
    }
)
pods = st.fixed_dictionaries(
    {
        "cpu": st.integers(0, 6),
        "gpus": st.sampled_from([0, 0, 1, 2]),
        "owner": st.sampled_from([True, True, False]),
        "affinity": st.sampled_from([None, None, {}, {"name": "r0"}, {"tolerations": [{"operator": "Exists"}]}]),
        "exact": st.sampled_from([None, None, [names.CPU], [names.CPU, names.NVIDIA_GPU]]),
    }
)


def reserve(run: Any, name: str, drawn: dict[str, Any]) -> None:
    amounts = {names.CPU: 1000 * drawn["cpu"], names.NVIDIA_GPU: drawn["gpus"], names.PODS: drawn["pods"]}
    amounts = {resource: amount for resource, amount in amounts.items() if amount}
    notes = {names.ANNOTATION_NODE_RESERVATION: json.dumps({"resources": {"cpu": str(drawn["inner"])}})}
    if drawn["options"] is not None:
        notes[names.ANNOTATION_RESERVATION_RESTRICTED] = json.dumps({"resources": drawn["options"]})
    waiting = Reservation(
        name=name,
        uid=f"uid-{name}",
        version=1,
        template=PodTemplate(requests=amounts, scheduler=names.SCHEDULER_NAME, priority=9),
        required_node=drawn["node"],
        owners=OWNERS,
        allocate_once=drawn["once"],
        allocate_policy=drawn["policy"],
        annotations=notes,
        labels={names.LABEL_RESERVATION_ORDER: drawn["order"]},
        taints=[Taint(key="k", effect="NoSchedule")] if drawn["tainted"] else [],
        phase="Pending",
    )
    run.reservation(waiting)
    run.round()
    held = run.cluster.book.ledger.decisions.get(("", name))
    if held is None:
        run.delete(subjects.named_key("reservation", name))
        return
    shown = {**{field: getattr(waiting, field) for field in waiting.__struct_fields__}, "version": run.version + 1}
    shown |= {"phase": "Available", "node": held.decision.node, "allocatable": amounts, "plan": held.decision.plan}
    shown["annotations"] = {**notes, **held.decision.annotations}
    available = Reservation(**shown)
    life = live(available, [], node_is_gone=False, now=0.0)
    run.reservation(available, capacity_of(available, life))


def asking(name: str, drawn: dict[str, Any]) -> Any:
    builder = pod(name).requests(cpu=1000 * drawn["cpu"])
    if drawn["gpus"]:
        builder.requests({names.NVIDIA_GPU: drawn["gpus"]})
    if drawn["owner"]:
        builder.label("app", "own")
    if drawn["affinity"] is not None:
        builder.annotation(names.ANNOTATION_RESERVATION_AFFINITY, json.dumps(drawn["affinity"]))
    if drawn["exact"] is not None:
        builder.annotation(names.ANNOTATION_RESERVATION_EXACT, json.dumps({"resourceNames": drawn["exact"]}))
    return builder


@settings(max_examples=150, deadline=None)
@given(st.lists(reservations, min_size=1, max_size=4), st.lists(pods, min_size=1, max_size=6))
def test_the_verifier_lets_pass_what_draws_on_reservations(
    solving: Any, kept: list[dict[str, Any]], waiting: list[dict[str, Any]]
) -> None:
    run = solving()
    for node in NODES:
        run.node(node, cpu=8000, pods=12)
        run.devices(node, gpu_slots(3))
    for number, drawn in enumerate(kept):
        reserve(run, f"r{number}", drawn)
    run.pods(asking(f"p{number}", drawn) for number, drawn in enumerate(waiting))
    solution = run.round()  # verified
    known = run.cluster.reservations.known
    for placement in solution.placements:
        drawn = waiting[int(placement.candidate.name[1][1:])]
        capacity = known[placement.claim.reservation].capacity if placement.claim.reservation else None
        assert capacity is not None or drawn["affinity"] is None
        if capacity is not None:
            assert drawn["owner"]
            assert drawn["affinity"] != {"name": "r0"} or capacity.name == "r0"
            tolerates = drawn["affinity"] is not None and ("tolerations" in drawn["affinity"] or capacity.name == "r0")
            assert not capacity.taints or tolerates
    for uid, each in known.items():
        mine = [p.claim for p in solution.placements if p.claim.reservation == uid]
        if each.capacity.allocate_policy == "Restricted" and names.PODS in each.capacity.amounts:
            assert len(mine) <= each.capacity.amounts[names.PODS]
