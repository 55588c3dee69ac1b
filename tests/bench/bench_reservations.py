"""What Reservations cost pods that they are not for.

Whole rounds of pods on nodes without any Reservation, and on the same nodes beside Reservations that are for others: by
name, by controller and by labels of which the pods have some. Then rounds of owners, each of which matches one of them.
Processor time, in turns within one run; prints medians and ratios, asserts nothing.

    python tests/bench/bench_reservations.py [--nodes 2000] [--reservations 2000] [--pods 2000] [--turns 7]
"""

from __future__ import annotations

import argparse
import statistics
import time

from told import tell

from berth.contracts import names
from berth.contracts.kube import ControllerReference, LabelSelector, ObjectReference, ReservationOwner
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.trial import Trial
from berth.runtime.process import freeze_garbage_collection, tune_garbage_collection
from berth.testing.builders import GI, PodBuilder, pod
from berth.testing.feed import Feed

BATCH = 200
HELD = {names.CPU: 4000, names.MEMORY: 8 * GI}


def owner_of(number: int) -> ReservationOwner:
    """For one pod each, named in one of three ways."""
    if number % 3 == 0:
        return ReservationOwner(object=ObjectReference(namespace="default", name=f"owner-{number}"))
    if number % 3 == 1:
        return ReservationOwner(controller=ControllerReference(kind="StatefulSet", name=f"set-{number}"))
    return ReservationOwner(label_selector=LabelSelector(match_labels={"team": "a", "job": f"job-{number}"}))


def cluster_of(nodes: int, reservations: int) -> ClusterView:
    """So many nodes, and Reservations on them one after the other."""
    cluster = ClusterView([names.SCHEDULER_NAME], "s1")
    feed = Feed(cluster)
    for number in range(nodes):
        feed.node(f"n{number}", cpu=64_000)
    for number in range(reservations):
        name, node = f"r{number}", f"n{number % nodes}"
        template = PodTemplate(requests=HELD)
        fields = {"name": name, "uid": f"uid-{name}", "node": node, "phase": "Available", "owners": [owner_of(number)]}
        feed.reservation(
            Reservation(version=1, template=template, allocatable=HELD, **fields),
            ReservedCapacity(revision=1, usable=True, amounts=HELD, **fields),
        )
    return cluster


def stranger(number: int) -> PodBuilder:
    """It has a label that a third of the owners have."""
    return pod(f"p{number}").requests(cpu=100, memory=GI).label("team", "a").label("job", f"mine-{number % 50}")


def owner(number: int) -> PodBuilder:
    """A pod that one Reservation by labels is for."""
    return pod(f"p{number}").requests(cpu=100, memory=GI).label("team", "a").label("job", f"job-{3 * number + 2}")


def seconds(cluster: ClusterView, builders: list[PodBuilder]) -> float:
    """All of them decided in rounds; taken back afterwards."""
    feed = Feed(cluster, complete=False)
    feed.pods(builders)
    spent = 0.0
    trials = []
    while True:
        units, _ = cluster.batch(BATCH)
        if not units:
            break
        trial = Trial(cluster.capacity)
        before = time.process_time()
        solution = cluster.solver.solve(units, trial, "plan")
        spent += time.process_time() - before
        assert len(solution.placements) == len(units)
        trials.append(trial)
    for trial in reversed(trials):
        trial.undo()
    for each in builders:
        feed.delete_pod(each.build(0).name)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--reservations", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=7)
    args = parser.parse_args()
    tune_garbage_collection()
    without, beside = cluster_of(args.nodes, 0), cluster_of(args.nodes, args.reservations)
    freeze_garbage_collection()
    strangers = [stranger(number) for number in range(args.pods)]
    owners = [owner(number) for number in range(min(args.pods, args.reservations // 3))]
    spent: dict[str, list[float]] = {"without": [], "strangers": [], "owners": []}
    for _ in range(args.turns):
        spent["without"].append(seconds(without, strangers) / len(strangers))
        spent["strangers"].append(seconds(beside, strangers) / len(strangers))
        spent["owners"].append(seconds(beside, owners) / len(owners))
    base = statistics.median(spent["without"])
    for what, times in spent.items():
        each = statistics.median(times)
        print(f"{what:10} {each * 1e6:8.1f} us a pod, {each / base:5.3f} of a pod on nodes without Reservations")
        tell("pods", what=what, us_a_pod=each * 1e6, ratio=each / base)


if __name__ == "__main__":
    main()
