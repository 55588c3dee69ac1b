"""A board that is asked after every event changes the same as one that is asked for the first time."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from tests.services.node_qos_builders import BEST_EFFORT, FACTS, GUARANTEED, container, pod

from berth.contracts import names
from berth.node_qos_enforcer.core.inside.board import RETRY_S, Board
from berth.node_qos_enforcer.core.inside.cpus import Wanted
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.seen import Limits, PodSeen, container_seen, pod_seen
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.nri import api_pb2 as api
from berth.rules.cpus.kubelet import Checkpoint

BATCH: Final = json.dumps({"containers": {"main": {"limits": {names.BATCH_CPU: "500", names.BATCH_MEMORY: "64Mi"}}}})
NODES: Final = (NodeFacts(), NodeFacts(cpu_ratio=1.5), NodeFacts(system_cpus=frozenset({0})))
PODS: Final = st.integers(0, 3)
STEP: Final = st.one_of(
    st.tuples(st.just("begin"), PODS, st.sampled_from(["", "LS", "LSR", "LSE", "BE"]), st.sampled_from(["", "2-3"])),
    st.tuples(st.just("end"), PODS),
    st.tuples(st.just("create"), PODS, st.sampled_from([None, -1, 50_000]), st.sampled_from([None, 33_334])),
    st.tuples(st.just("start"), PODS),
    st.tuples(st.just("remove"), PODS),
    st.tuples(st.just("resize"), PODS, st.sampled_from([None, -1, 70_000]), st.sampled_from(["", "1"])),
    st.tuples(st.just("hear"), PODS, st.sampled_from([None, 90_000])),
    st.tuples(st.just("node"), st.sampled_from(NODES)),
    st.tuples(st.just("static"), st.sampled_from(["none", "static"])),
    st.tuples(st.just("give back"), st.booleans()),
    st.tuples(st.just("batch quota"), st.booleans()),
    st.tuples(st.just("push"), st.sets(PODS)),
    st.tuples(st.just("wait"), st.just(RETRY_S + 1)),
)


def _pod(number: int, qos: str = "", cpus: str = "") -> api.PodSandbox:
    is_batch = qos == "BE"
    notes = {names.ANNOTATION_EXTENDED_RESOURCE_SPEC: BATCH} if is_batch else {}
    parent = BEST_EFFORT if is_batch else GUARANTEED
    return pod(f"p{number}", qos=qos, cpus=cpus, annotations=notes, parent=parent)


def _seen(number: int, qos: str = "", cpus: str = "") -> PodSeen:
    return pod_seen(_pod(number, qos, cpus))


class _World:
    """Two boards that see the same; one is asked after each step."""

    def __init__(self) -> None:
        self.asked, self.quiet = Board(), Board()
        self.facts: InsideFacts = FACTS
        self.now_s = 0.0

    def step(self, what: str, *given: object) -> None:
        number = given[0] if isinstance(given[0], int) else 0
        name = f"p{number}-main"
        match what:
            case "node":
                self.facts = replace(self.facts, node=given[0])  # type: ignore[arg-type]
            case "static":
                self.facts = replace(self.facts, checkpoint=Checkpoint(str(given[0])))
            case "give back":
                self.facts = replace(self.facts, gives_back=bool(given[0]))
            case "batch quota":
                self.facts = replace(self.facts, batch_quota=bool(given[0]))
            case "wait":
                self.now_s += RETRY_S + 1
            case "push":
                found = self.updates(self.asked)
                failed = [f"p{each}-main" for each in given[0]]  # type: ignore[attr-defined]
                for board in (self.asked, self.quiet):
                    board.pushed(found, failed, self.now_s)
            case _:
                for board in (self.asked, self.quiet):
                    _hear(board, what, number, name, given[1:])

    def updates(self, board: Board) -> list[object]:
        return list(board.updates(self.facts, board.pools(self.facts), self.now_s))


def _hear(board: Board, what: str, number: int, name: str, given: tuple[object, ...]) -> None:
    match what, given:
        case "begin", (str() as qos, str() as cpus):
            board.begin(_seen(number, qos, cpus))
        case "end", _:
            board.end(f"sandbox-p{number}")
        case "create", (int() | None as quota_us, int() | None as wanted_us):
            seen = container_seen(container(_pod(number), quota_us=quota_us, state=api.CONTAINER_CREATED))
            board.create(seen, Wanted(quota_us=wanted_us))
        case "start", _:
            board.start(name)
        case "remove", _:
            board.remove(name)
        case "resize", (int() | None as quota_us, str() as cpus):
            board.resized(name, Limits(cpus, quota_us))
        case "hear", (int() | None as quota_us,):
            pods = [_pod(each) for each in range(number + 1)]
            containers = [container_seen(container(each, quota_us=quota_us)) for each in pods]
            board.hear([(pod_seen(each), True) for each in pods], containers, more=False)


@given(st.lists(STEP, max_size=12))
def test_what_is_asked_often_says_the_same_as_what_is_asked_once(steps: list[tuple[object, ...]]) -> None:
    world = _settled()
    for what, *given_ in steps:
        world.step(str(what), *given_)
        fresh = deepcopy(world.quiet)
        assert world.updates(world.asked) == world.updates(fresh)
        assert world.asked.now() == fresh.now()


def _settled() -> _World:
    """Pods of each kind with containers as they are to be, whose limits kubelet has told."""
    world = _World()
    for number, qos in enumerate(["", "LS", "BE", ""]):
        world.step("begin", number, qos, "")
        world.step("create", number, 50_000, None)
        world.step("start", number)
    world.step("push", set())
    assert world.updates(world.asked) == []
    return world


def test_what_is_right_is_not_worked_out_again() -> None:
    world = _settled()
    read: list[str] = []

    class Counting(PodSeen):
        @property
        def qos(self) -> str:
            read.append(self.id)
            return ""

    for pod_id, seen in world.asked.pods.items():
        world.asked.pods[pod_id] = Counting(*seen)
    pools = world.asked.pools(world.facts)
    assert world.asked.updates(world.facts, pools, 0.0) == []
    assert len(set(read)) == 4, "another pod is looked at"
    read.clear()
    assert world.asked.updates(world.facts, pools, 0.0) == []
    assert not read
