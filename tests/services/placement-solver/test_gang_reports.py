"""PodGroup statuses that are asked for, and answers to people."""

from __future__ import annotations

import pytest

from berth.contracts import names
from berth.contracts.codec import decode
from berth.contracts.command import PatchObject
from berth.contracts.question import WhyQuestion
from berth.placement_solver import metrics
from berth.placement_solver.gang_reports import GangReports
from berth.placement_solver.why import answer
from berth.testing.builders import pod


class Clock:
    time = 100.0

    def now(self):
        return 1_700_000_000.0 + self.time

    def monotonic(self):
        return self.time


class Commands:
    def __init__(self):
        self.sent, self.ids = [], []

    async def publish(self, subject, payload, **more):
        self.sent.append(decode(payload, PatchObject))
        self.ids.append(more["id"])


class Desk:
    def __init__(self, run):
        self.run, self.clock, self.commands = run, Clock(), Commands()
        self.reports = GangReports(run.cluster, self.commands, self.clock, retry_s=10.0)


@pytest.fixture
def desk(solving):
    run = solving()
    run.node("n0", cpu=4000)
    return Desk(run)


async def test_a_phase_is_asked_for_until_the_object_shows_it(desk):
    desk.run.pod_group("g", 2)
    for index in range(2):
        desk.run.pod(pod(f"m{index}").requests(cpu=1000).gang("g"))
    await desk.reports.tell()
    await desk.reports.tell()
    assert len(desk.commands.sent) == 1
    first = desk.commands.sent[0]
    assert (first.name, first.status_subresource, bool(first.status["phase"])) == ("g", False, True)
    desk.clock.time += 11
    await desk.reports.tell()
    assert len(desk.commands.sent) == 2
    assert len(set(desk.commands.ids)) == 2, "the stream would drop a second message of the same id"
    desk.run.pod_group("g", 2, phase=first.status["phase"])
    desk.clock.time += 11
    await desk.reports.tell()
    assert [patch.status.get("phase") for patch in desk.commands.sent[2:]] != [first.status["phase"]]


async def test_a_gang_without_an_object_needs_no_report(desk):
    desk.run.pod(pod("m").requests(cpu=1000).gang("loose", 1))
    await desk.reports.tell()
    assert desk.commands.sent == []
    assert desk.run.cluster.changed_gangs == set()


async def test_only_the_gangs_own_solver_reports(desk):
    desk.run.pod_group("g", 2)
    desk.run.pod(pod("m0").requests(cpu=1000).gang("g"))
    cluster = desk.run.cluster
    others = next(s for s in (f"other{i}" for i in range(50)) if not _is_mine(cluster, ("s1", s)))
    cluster.resharded(("s1", others))
    await desk.reports.tell()
    assert desk.commands.sent == []


def _is_mine(cluster, solvers):
    before, cluster.solvers = cluster.solvers, solvers
    try:
        return cluster.is_mine("default/g")
    finally:
        cluster.solvers = before


def ask(run, name, namespace="default"):
    return answer(run.cluster, WhyQuestion(namespace=namespace, name=name))


def test_why(desk):
    run = desk.run
    assert ask(run, "nobody").outcome == "unknown"
    run.pod(pod("foreign").template(scheduler="other"))
    assert ask(run, "foreign").outcome == "foreign"
    builder = pod("p").requests(cpu=1000)
    run.pod(builder)
    assert (ask(run, "p").outcome, ask(run, "p").mine) == ("waiting", True)
    run.round()
    decided = ask(run, "p")
    assert (decided.outcome, decided.node) == ("decided", "n0")
    run.bind(builder)
    bound = ask(run, "p")
    assert (bound.outcome, bound.node, bound.plan) == ("bound", "n0", decided.plan)
    run.pod(pod("big").requests(cpu=9000))
    run.round()
    refused = ask(run, "big")
    assert refused.outcome == "refused"
    assert refused.reasons[0].code == "NodeResourcesFit"
    run.pod(pod("gated").requests(cpu=1).template(gates=["g"]))
    assert "scheduling gates: g" in ask(run, "gated").message
    run.pod(pod("leaving").requests(cpu=1).set(deleting=True))
    assert "being deleted" in ask(run, "leaving").message


def test_only_the_solver_that_decides_a_pod_says_so(desk):
    run = desk.run
    run.pods(pod(f"p{index}").requests(cpu=10) for index in range(20))
    run.round()
    run.cluster.resharded(("s1", "s2"))
    mine = [ask(run, f"p{index}").mine for index in range(20)]
    assert any(mine)
    assert not all(mine)


async def test_counters_alone_are_told_every_other_second(desk):
    desk.run.pod_group("g", 1, phase="Running")
    desk.run.pod(pod("m0").requests(cpu=1000).gang("g").on("n0"))
    await desk.reports.tell()
    assert desk.commands.sent[-1].status["scheduled"] == 1
    assert "phase" not in desk.commands.sent[-1].status
    desk.run.pod_group("g", 1, phase="Running", scheduled=1, running=1)
    desk.run.pod(pod("m1").requests(cpu=1000).gang("g").on("n0"))
    await desk.reports.tell()
    assert len(desk.commands.sent) == 1
    desk.clock.time += 2
    await desk.reports.tell()
    assert desk.commands.sent[-1].status["scheduled"] == 2


async def test_a_hundred_statuses_are_told_in_a_second(desk):
    for number in range(130):
        desk.run.pod_group(f"g{number:03}", 1)
    await desk.reports.tell()
    assert len(desk.commands.sent) == 100
    await desk.reports.tell()
    assert len(desk.commands.sent) == 100
    desk.clock.time += 1
    await desk.reports.tell()
    assert len(desk.commands.sent) == 130


async def test_groups_that_do_not_name_each_other_are_reported(desk):
    groups = '["default/g","default/h","default/never"]'
    desk.run.pod_group("g", 1, annotations={names.ANNOTATION_GANG_GROUPS: groups})
    desk.run.pod_group("h", 1)
    desk.run.pod(pod("m").requests(cpu=1000).gang("g"))
    await desk.reports.tell()
    found = answer(desk.run.cluster, WhyQuestion(kind="gang", namespace="default", name="g"))
    field = f"metadata.annotations[{names.ANNOTATION_GANG_GROUPS}]"
    assert [(each.field, each.message) for each in found.problems] == [
        (field, "gang default/h names another group: default/h"),
        (field, "gang default/never of the group is not there"),
    ]
    assert metrics.GANG_PROBLEMS._value.get() == 2
    assert found.reasons[0].field == field
    desk.run.pod_group("g", 1)
    await desk.reports.tell()
    assert metrics.GANG_PROBLEMS._value.get() == 0
