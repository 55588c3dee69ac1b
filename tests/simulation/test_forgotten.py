"""Who is placed by nothing but a new start had been forgotten; who had to wait had not."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from tests.simulation import last
from tests.simulation.faults import departures
from tests.simulation.forgotten import LOOK_S, QUIET_S, START_S, Forgotten
from tests.simulation.harness import Harness, build
from tests.simulation.laws import Pardon
from tests.simulation.planted.in_solver import never_retried
from tests.simulation.settled import unsettled
from tests.simulation.unmetered import unmetered
from tests.simulation.users import PATHS, Users
from tests.simulation.workload import GANG_LABEL, NAMESPACE, Change, Create, Delete, Scale, Timed, node

from berth.contracts import names
from berth.simcluster.generate.build import PodRequest, pod_manifest

CARD = PodRequest(500, 512, 1)


def make(name: str, at_s: float, *, end_s: float = 0.0, **more: Any) -> list[Timed]:
    """A pod, and its deletion if it has an end."""
    made = [Timed(at_s, Create(pod_manifest(name, CARD, namespace=NAMESPACE, **more)))]
    return made + ([Timed(end_s, Delete("Pod", name, 0))] if end_s else [])


def looked(stack: ExitStack, actions: list[Timed]) -> tuple[Harness, Forgotten]:
    """A node of one card, and what came of it after 30 s."""
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    harness = build(1, [home, *node("node-0", 1)], {}, log_level="error")
    stack.callback(harness.world.close)
    stack.enter_context(harness.journal)
    stack.enter_context(unmetered())
    forgotten = Forgotten(harness)
    Users(harness.world, harness.kube).plan(actions)
    harness.world.run(30.0)
    assert unsettled(harness) == []
    return harness, forgotten


def test_a_pod_that_was_never_tried_again_was_forgotten() -> None:
    with ExitStack() as stack:
        stack.enter_context(never_retried())
        harness, forgotten = looked(stack, [*make("first", 5.0, end_s=20.0), *make("second", 10.0)])
        (told,) = forgotten.look()
        assert told.startswith("pod team/second was placed at ")
        assert harness.observer.verdicts.judgements["L2"] == 1
        assert forgotten.asked == 1


@pytest.mark.parametrize(("bug", "told"), [(nullcontext, 0), (never_retried, 1)])
def test_capacity_that_is_made_when_all_is_quiet_has_to_be_noticed(bug: Callable[[], Any], told: int) -> None:
    with ExitStack() as stack:
        stack.enter_context(bug())
        harness, forgotten = looked(stack, [*make("first", 5.0), *make("second", 10.0)])
        users = Users(harness.world, harness.kube)
        assert len(forgotten.look(lambda: users.act([Delete("Pod", "first", 0)]))) == told


@pytest.mark.parametrize(
    ("annotation", "is_change"), [(names.ANNOTATION_KUBELET_CARDS, True), ("scheduling.berth.sh/revision", False)]
)
def test_that_cards_which_kubelet_picked_come_to_be_known_is_a_change(annotation: str, is_change: bool) -> None:
    with ExitStack() as stack:
        harness, forgotten = looked(stack, make("first", 5.0))
        before_s = forgotten._changed_s
        Users(harness.world, harness.kube).act(
            [Change("Device", "node-0", {"metadata": {"annotations": {annotation: "7"}}})]
        )
        assert (forgotten._changed_s > before_s) is is_change


def test_the_last_change_makes_capacity() -> None:
    with ExitStack() as stack:
        harness, _ = looked(stack, [*make("first", 5.0), *make("second", 10.0)])
        kinds = {type(each) for seed in range(20) for each in last.changes(random.Random(seed), harness)}
        assert kinds == {Create, Delete, Scale}
        Users(harness.world, harness.kube).act([Change("Node", "node-0", {"spec": {"unschedulable": True}})])
        assert Change in {type(each) for seed in range(20) for each in last.changes(random.Random(seed), harness)}


def test_only_of_those_that_are_two_one_goes_for_good() -> None:
    found = [each for seed in range(50) for each in departures(random.Random(seed), {"one": 1, "two": 2}, 100.0)]
    assert {each.target for each in found} == {"two"}
    assert len(found) < 50


def test_nobody_is_forgotten_when_capacity_goes_to_whoever_waits() -> None:
    with ExitStack() as stack:
        actions = [*make("first", 5.0, end_s=20.0), *make("second", 10.0), *make("third", 11.0)]
        harness, forgotten = looked(stack, actions)
        assert (forgotten.look(), forgotten.asked) == ([], 1)
        assert harness.host.of("placement-solver")[0].starts == 2


def test_nothing_is_done_where_nobody_waits() -> None:
    with ExitStack() as stack:
        harness, forgotten = looked(stack, make("first", 5.0))
        assert (forgotten.look(), forgotten.asked, harness.world.now) == ([], 0, 30.0)


def test_members_of_gangs_are_not_judged() -> None:
    with ExitStack() as stack:
        stack.enter_context(never_retried())
        gang = make("second", 10.0, labels={GANG_LABEL: "g"})
        harness, forgotten = looked(stack, [*make("first", 5.0, end_s=20.0), *gang])
        assert (forgotten.look(), forgotten.asked) == ([], 0)
        assert harness.observer.verdicts.excuses == {("L2", Pardon.GANG): 1}


@pytest.mark.parametrize("later_s", [QUIET_S / 2, QUIET_S + 1.0])
def test_what_has_got_capacity_meanwhile_was_not_forgotten(later_s: float) -> None:
    """Capacity comes back while it is waited for quiet, or when the solvers start anew: nobody could have known."""
    with ExitStack() as stack:
        harness, forgotten = looked(stack, [*make("first", 5.0), *make("second", 10.0)])
        path = PATHS["Pod"]._replace(name="first")
        harness.world.later(later_s, None, lambda: harness.kube.perform("delete", path, gracePeriodSeconds="0"))
        assert forgotten.look() == []
        counts = harness.observer.verdicts
        is_in_time = later_s < QUIET_S  # else the look was over before
        assert counts.judgements["L2"] == (not is_in_time)
        assert counts.excuses == ({("L2", Pardon.CHANGED): 1} if is_in_time else {})
        harness.world.run(harness.world.now + LOOK_S)
        pod = harness.kube.perform("get", PATHS["Pod"]._replace(name="second"))
        assert msgspec.json.decode(pod.body)["spec"]["nodeName"] == "node-0"


def test_solvers_that_do_not_come_back_are_no_excuse() -> None:
    with ExitStack() as stack:
        harness, forgotten = looked(stack, [*make("first", 5.0), *make("second", 10.0)])
        stack.enter_context(patch.object(harness.host, "_restart_s", (START_S + 1.0, START_S + 1.0)))
        (told,) = forgotten.look()
        assert told.startswith("placement-solver-0 is not ready 20 s after")
