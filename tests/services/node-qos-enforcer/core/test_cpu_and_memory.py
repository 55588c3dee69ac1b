"""Strategies of CPU and memory, from a snapshot to the values of files."""

import json

import pytest

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_EXTENDED_RESOURCE_SPEC as BATCH
from berth.contracts.names import BATCH_CPU, BATCH_MEMORY, CPU, LABEL_QOS, MEMORY
from berth.contracts.slo import ContainerSize, NodePod
from berth.node_qos_enforcer.core.compose import asked, compose
from berth.node_qos_enforcer.core.inside.running import ContainerNow, PodNow
from berth.node_qos_enforcer.core.inside.seen import Limits, PodSeen
from berth.node_qos_enforcer.core.laws.cpu_burst import ANNOTATION as BURST
from berth.node_qos_enforcer.core.laws.memory import ANNOTATION as MEMORY_QOS
from berth.node_qos_enforcer.core.laws.memory import Protected, class_values
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.node_qos_enforcer.core.pods import Found, Pods
from berth.node_qos_enforcer.core.strategies.batch_limits import BATCH_LIMITS
from berth.node_qos_enforcer.core.strategies.cpu_burst import CPU_BURST_STRATEGY
from berth.node_qos_enforcer.core.strategies.cpu_normalization import CPU_NORMALIZATION
from berth.node_qos_enforcer.core.strategies.knobs import (
    CPU_BURST,
    CPU_IDLE,
    CPU_QUOTA,
    CPU_SHARES,
    CPU_STAT,
    CPU_USAGE,
    QUOTA_BURST,
    QUOTA_LIMIT,
    QUOTA_SCALE,
)
from berth.node_qos_enforcer.core.strategies.memory_qos import MEMORY_QOS_STRATEGY
from berth.node_qos_enforcer.core.strategies.node_slo import effective
from berth.node_qos_enforcer.core.strategies.round import Round
from berth.node_qos_enforcer.core.strategies.seam import (
    KEEP,
    Container,
    Decided,
    Needs,
    Node,
    Pod,
    Ref,
    Snapshot,
    Strategy,
    Usage,
    Wanted,
)
from berth.node_qos_enforcer.core.topology import Processor
from berth.rules.cpus.resource_status import read_resource_status

GIB = 1 << 30
CPUS = tuple(Processor(cpu, cpu // 2, 0, 0) for cpu in range(8))
NODE = Node(name="n", version=2, driver="cgroupfs", processors=CPUS, allocatable={MEMORY: 64 * GIB})


def container(name="main", *, milli=2_000, memory=2 * GIB, group="g/c", **more) -> Container:
    limits = {CPU: milli, MEMORY: memory} if milli else {}
    return Container(name, "id", group, {CPU: milli, MEMORY: memory // 2}, limits, is_sized=True, **more)


def pod(*containers, qos="LS", group="g", annotations=None, kube_qos="Burstable", **more) -> Pod:
    total = {CPU: sum(each.limits.get(CPU, 0) for each in containers)}
    return Pod(
        "u",
        "d",
        "p",
        qos=qos,
        kube_qos=kube_qos,
        labels={LABEL_QOS: qos} if qos else {},
        annotations=annotations or {},
        requests={MEMORY: sum(each.requests.get(MEMORY, 0) for each in containers)},
        limits=total if all(total.values()) else {},
        containers=containers,
        group=group,
        is_known=True,
        **more,
    )


def wanted_of(answer) -> list[Wanted]:
    return [each for part in answer.parts for each in part]


def values(*wanted) -> dict[Ref, str | None]:
    return {each.ref: each.value for each in wanted}


class TestBurst:
    SPEC = effective({"cpuBurstStrategy": {"policy": "auto"}})

    def look(self, at_s: float, throttled: int, *, quota="200000 100000", used=1.0, of=None) -> Snapshot:
        found = {
            Ref("g/c", CPU_QUOTA): quota,
            Ref("g/c", CPU_STAT): f"nr_periods {int(at_s) * 10}\nnr_throttled {throttled}\nthrottled_usec 1",
            Ref("g/c", CPU_USAGE): f"usage_usec {int(at_s * used * 1e6)}",
        }
        return Snapshot(NODE, (of or pod(container()),), Usage(node_cores=used), found, now_s=at_s, chance=0.5)

    def test_a_stopped_container_gets_a_fifth_more_while_the_node_is_calm(self):
        memory = CPU_BURST_STRATEGY.memory
        first = CPU_BURST_STRATEGY.decide(self.look(1, 0), self.SPEC, memory)
        assert values(*first.wanted) == {Ref("g/c", CPU_BURST): "200000", Ref("g", CPU_BURST): "200000"}
        second = CPU_BURST_STRATEGY.decide(self.look(2, 5), self.SPEC, first.memory)
        assert Wanted("g/c", QUOTA_BURST, "240000") in second.wanted
        composed = compose(self.look(2, 5), second.wanted).values
        assert composed[Ref("g/c", CPU_QUOTA)] == composed[Ref("g", CPU_QUOTA)] == "240000"
        busy = CPU_BURST_STRATEGY.decide(self.look(13, 9, quota="240000 100000", used=7.9), self.SPEC, second.memory)
        assert busy.facts["shared_cpus"] == "Overload"
        assert all(each.knob != QUOTA_BURST for each in busy.wanted), "back to its limit"

    def test_a_container_whose_counters_are_not_read_keeps_what_it_has(self):
        look = self.look(1, 0)._replace(found={})
        assert (
            Wanted("g/c", QUOTA_BURST, KEEP)
            in CPU_BURST_STRATEGY.decide(look, self.SPEC, CPU_BURST_STRATEGY.memory).wanted
        )

    @pytest.mark.parametrize("parts", [(), (Wanted("g/c", QUOTA_SCALE, "1.2"), Wanted("g", QUOTA_SCALE, "1.2"))])
    def test_where_a_part_of_a_quota_is_kept_the_quotas_of_the_pod_are(self, parts):
        composed = compose(self.look(1, 0), [*parts, Wanted("g/c", QUOTA_BURST, KEEP)])
        assert composed.values == {}
        assert composed.kept == {Ref("g/c", CPU_QUOTA), Ref("g", CPU_QUOTA)}

    @pytest.mark.parametrize(
        "of",
        [
            pod(container(), qos="BE"),
            pod(container(), qos="LSR"),
            pod(container(milli=0)),
            pod(container(is_pinned=True)),
            pod(container(), annotations={BURST: '{"policy":"none"}'}),
        ],
    )
    def test_who_never_bursts(self, of):
        look = self.look(1, 0, of=of)
        assert CPU_BURST_STRATEGY.decide(look, self.SPEC, CPU_BURST_STRATEGY.memory).wanted == ()

    def test_credit_runs_out(self):
        spec = effective({"cpuBurstStrategy": {"policy": "auto", "cfsQuotaBurstPeriodSeconds": 4}})
        memory, seen = CPU_BURST_STRATEGY.memory, []
        for second in range(1, 12):
            look = self.look(second, second * 5, quota="300000 100000", used=3.0)
            decided = CPU_BURST_STRATEGY.decide(look, spec, memory)
            memory = decided.memory
            seen.append(values(*decided.wanted).get(Ref("g/c", QUOTA_BURST)))
        assert seen[1] == "360000"
        assert seen[-1] == "240000"


class TestQuotas:
    def test_one_value_of_all_parts(self):
        of = pod(container(), container("side", milli=1_000, group="g/s"))
        look = Snapshot(NODE, (of,))
        parts = [Wanted(group, QUOTA_SCALE, "1.2") for group in ("g", "g/c", "g/s")]
        wanted = compose(look, [*parts, Wanted("g/c", QUOTA_BURST, "300000")]).values
        assert wanted == {
            Ref("g/c", CPU_QUOTA): "300000",
            Ref("g/s", CPU_QUOTA): "83334",
            Ref("g", CPU_QUOTA): str(250_000 + 300_000 - 166_667),
        }

    def test_cpus_of_its_own_lift_the_quota(self):
        look = Snapshot(NODE, (pod(container(is_pinned=True)),))
        assert set(compose(look, [Wanted("g/c", QUOTA_SCALE, "2")]).values.values()) == {"max"}

    def test_a_container_of_unknown_size_leaves_the_pod_alone(self):
        of = pod(container(), Container("other", "id", "g/o"))
        assert Ref("g", CPU_QUOTA) not in compose(Snapshot(NODE, (of,)), [Wanted("g/c", QUOTA_SCALE, "2")]).values

    def test_two_that_want_different_things_are_named(self):
        composed = compose(Snapshot(NODE), [Wanted("g", "cpu.idle", "1"), Wanted("g", "cpu.idle", "0")])
        assert composed.values == {Ref("g", "cpu.idle"): "1"}
        assert "two strategies" in composed.problems[0].message

    @pytest.mark.parametrize("first", [CPU_IDLE, CPU_SHARES])
    def test_a_group_that_is_idle_keeps_its_weight(self, first):
        wanted = sorted(
            [Wanted("g", CPU_IDLE, "1"), Wanted("g", CPU_SHARES, "512")], key=lambda each: each.knob != first
        )
        composed = compose(Snapshot(NODE), wanted)
        assert composed.values == {Ref("g", CPU_IDLE): "1"}
        assert composed.kept == {Ref("g", CPU_SHARES)}
        composed = compose(Snapshot(NODE), [Wanted("g", CPU_IDLE, "0"), Wanted("g", CPU_SHARES, "512")])
        assert composed.values == {Ref("g", CPU_IDLE): "0", Ref("g", CPU_SHARES): "512"}

    def test_what_is_asked_for_now(self):
        look = Snapshot(NODE, (pod(container(milli=3_000)),))
        assert asked(look, Ref("g/c", CPU_QUOTA)) == asked(look, Ref("g", CPU_QUOTA)) == "300000"
        assert asked(look, Ref("g/c", "memory.max")) == str(2 * GIB)
        assert asked(look, Ref("kubepods/besteffort", CPU_QUOTA)) == "max"
        assert asked(look, Ref("g/c", "memory.min")) is None

    def test_normalisation_concerns_pods_that_share_cpus(self):
        node = NODE._replace(facts=NodeFacts(cpu_ratio=1.2))
        pods = (pod(container()), pod(container(group="h/c"), qos="LSR", group="h"))
        decided = CPU_NORMALIZATION.decide(Snapshot(node, pods), effective({}), None)
        assert values(*decided.wanted) == {Ref("g/c", QUOTA_SCALE): "1.2", Ref("g", QUOTA_SCALE): "1.2"}
        assert CPU_NORMALIZATION.decide(Snapshot(NODE, pods), effective({}), None).wanted == ()


SPEC = json.dumps(
    {"containers": {"main": {"requests": {BATCH_CPU: "500"}, "limits": {BATCH_CPU: "1k", BATCH_MEMORY: "1Gi"}}}}
)


class TestBatch:
    def batch(self, text=SPEC, **more) -> Snapshot:
        of = Container("main", "id", "g/c")
        annotations = {BATCH: text}
        return Snapshot(NODE, (pod(of, qos="BE", annotations=annotations, **{"kube_qos": "BestEffort", **more}),))

    def test_limits_of_pod_and_container(self):
        decided = BATCH_LIMITS.decide(self.batch(), effective({}), None)
        wanted = compose(self.batch(), decided.wanted).values
        for group in ("g", "g/c"):
            assert wanted[Ref(group, CPU_QUOTA)] == "100000"
            assert wanted[Ref(group, "cpu.shares")] == "512"
            assert wanted[Ref(group, "memory.max")] == str(GIB)
        assert decided.reports == ()

    def test_one_quota_for_all_leaves_none_for_each(self):
        spec = effective({"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}})
        assert Wanted("g", QUOTA_LIMIT, "max") in BATCH_LIMITS.decide(self.batch(), spec, None).wanted

    def test_what_is_wrong_is_named(self):
        (problem,) = BATCH_LIMITS.decide(
            self.batch('{"containers": {"main": {"limits": {"kubernetes.io/batch-cpu": "x"}}}}'), effective({}), None
        ).reports
        assert problem.field.startswith("pods[d/p].metadata.annotations[")
        (problem,) = BATCH_LIMITS.decide(self.batch(kube_qos="Burstable"), effective({}), None).reports
        assert "nothing holds it" in problem.message
        (problem,) = BATCH_LIMITS.decide(self.batch("x" * (1 << 20)), effective({}), None).reports
        assert "too large" in problem.message


class TestMemory:
    SPEC = effective(
        {
            "resourceQOSStrategy": {
                "lsClass": {"memoryQOS": {"enable": True, "minLimitPercent": 100, "throttlingPercent": 80}}
            }
        }
    )

    def test_a_service_is_protected_and_slowed(self):
        decided = MEMORY_QOS_STRATEGY.decide(Snapshot(NODE, (pod(container()),)), self.SPEC, None)
        wanted = values(*decided.wanted)
        assert wanted[Ref("g/c", "memory.min")] == wanted[Ref("g", "memory.min")] == str(GIB)
        assert wanted[Ref("kubepods", "memory.min")] == wanted[Ref("kubepods/burstable", "memory.min")] == str(GIB)
        assert int(wanted[Ref("g/c", "memory.high")]) == int(GIB * 1.8) // 4096 * 4096
        assert Ref("g", "memory.high") not in wanted
        assert Ref("kubepods", "memory.oom.group") not in wanted, "it would be all pods at once"

    def test_protection_is_held_to_what_the_node_has(self):
        many = tuple(pod(container(memory=80 * GIB, group=f"g{n}/c"), group=f"g{n}") for n in range(3))
        wanted = values(*MEMORY_QOS_STRATEGY.decide(Snapshot(NODE, many), self.SPEC, None).wanted)
        assert wanted[Ref("kubepods", "memory.min")] == str(64 * GIB)

    def test_who_is_left_alone(self):
        look = Snapshot(NODE, (pod(container(), qos="LSR", kube_qos="Guaranteed"),))
        assert MEMORY_QOS_STRATEGY.decide(look, effective({}), None).wanted == ()
        asks = pod(container(), qos="LSR", annotations={MEMORY_QOS: '{"policy":"auto","minLimitPercent":50}'})
        wanted = values(*MEMORY_QOS_STRATEGY.decide(Snapshot(NODE, (asks,)), effective({}), None).wanted)
        assert wanted[Ref("g/c", "memory.min")] == str(GIB // 2)

    def test_without_the_nodes_memory_the_round_is_skipped(self):
        look = Snapshot(NODE._replace(allocatable={}), (pod(container()),))
        assert "not known" in MEMORY_QOS_STRATEGY.decide(look, self.SPEC, None).skipped


class TestRound:
    def test_who_skips_keeps_what_it_wanted_and_who_fails_is_named(self):
        answers = [Decided((Wanted("g", "k", "1"),)), Decided(skipped="no data"), ValueError("x")]

        def decide(snapshot, spec, memory):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        rounds = Round((Strategy("s", "enforce", decide, lambda spec: spec["on"], Needs(knobs=("k",))),))
        for problems in (0, 0, 1):
            answer = rounds.decide(Snapshot(NODE), {"on": True})
            assert wanted_of(answer) == [Wanted("g", "k", "1")]
            assert len(answer.reports) == problems
        assert wanted_of(rounds.decide(Snapshot(NODE), {"on": False})) == []

    @pytest.mark.parametrize("where", ["is_on", "reads", "decide"])
    @pytest.mark.parametrize("error", [AttributeError("x"), RecursionError("x"), AssertionError("x")])
    def test_one_that_fails_stops_no_other(self, where, error):
        def fails(*_):
            raise error

        parts = {"decide": lambda *_: Decided(), "is_on": lambda _: True, "reads": lambda *_: ()} | {where: fails}
        bad = Strategy("bad", "enforce", needs=Needs(knobs=("b",)), **parts)
        good = Strategy(
            "good",
            "enforce",
            lambda *_: Decided((Wanted("g", "k", "1"),)),
            lambda _: True,
            reads=lambda *_: (Ref("g", "k"),),
        )
        rounds = Round((bad, good))
        assert list(rounds.reads(Snapshot(NODE), {})) == [Ref("g", "k")]
        answer = rounds.decide(Snapshot(NODE), {})
        assert wanted_of(answer) == [Wanted("g", "k", "1")]
        if where != "reads":
            assert [each.field for each in answer.reports] == ["strategies.bad"]
            assert answer.undecided == {"b"}, "it may have decided in a former life"

    def test_one_that_is_steady_is_asked_when_something_has_changed(self):
        asked_for = []

        def decide(snapshot, spec, memory):
            asked_for.append(snapshot.now_s)
            return Decided((Wanted("g", "k", str(len(asked_for))),))

        rounds = Round((Strategy("s", "enforce", decide, lambda spec: spec.get("on", True), is_steady=True),))
        look = Snapshot(NODE, (pod(container()),))
        same = (look, {}), (look._replace(now_s=1.0, usage=Usage(1.0)), {})
        other_pod = look._replace(now_s=2.0, pods=(pod(container(milli=7)),))
        other_node = other_pod._replace(now_s=3.0, node=NODE._replace(allocatable={}))
        for snapshot, spec in (*same, (other_pod, {}), (other_node, {}), (other_node, {"a": 1})):
            found = wanted_of(rounds.decide(snapshot, spec))
        assert asked_for == [0.0, 2.0, 3.0, 3.0]
        assert found == [Wanted("g", "k", "4")]
        assert wanted_of(rounds.decide(other_node, {"on": False})) == []

    def test_one_that_is_steady_goes_by_the_files_that_it_reads(self):
        ref = Ref("g", "k")

        def decide(snapshot, spec, memory):
            return Decided((Wanted("g", "other", snapshot.found.get(ref, "none")),))

        rounds = Round((Strategy("s", "enforce", decide, lambda _: True, reads=lambda *_: (ref,), is_steady=True),))
        look = Snapshot(NODE)
        for text in ("1", "1", "2", None):
            found = {} if text is None else {ref: text}
            assert wanted_of(rounds.decide(look._replace(found=found), {}))[0].value == (text or "none")

    def test_who_has_never_decided_has_nothing_undone(self):
        rounds = Round(
            (Strategy("s", "enforce", lambda *_: Decided(skipped="x"), lambda _: True, Needs(knobs=("k",))),)
        )
        assert rounds.decide(Snapshot(NODE), {}).undecided == {"k"}


def test_pods_are_put_together_from_all_who_know_something():
    annotations = {"scheduling.koordinator.sh/resource-status": '{"cpuset":"2-3"}'}
    seen = PodSeen("s", "u-1", "d", "p", {LABEL_QOS: "LSR"}, annotations, "", read_resource_status(annotations))
    now = PodNow(
        seen, (ContainerNow("abc", "main", Limits(quota_us=50_000), True), ContainerNow("def", "side", None, True))
    )
    told = NodePod(
        node="n",
        uid="u-1",
        namespace="d",
        name="p",
        priority=9500,
        requests={CPU: 3_000},
        containers=[ContainerSize(name="side", requests={MEMORY: GIB}, limits={MEMORY: GIB})],
    )
    below = ("cri-containerd-abc.scope", "cri-containerd-def.scope", "cri-containerd-box.scope")
    found = [Found("u-1", "Guaranteed", below), Found("u-2", "BestEffort")]
    one, other = Pods().of("systemd", found, {"u-1": now}, {"u-1": told})
    assert (one.qos, one.priority_class, one.is_known, other.is_known) == ("LSR", "koord-prod", True, False)
    assert one.group == "kubepods.slice/kubepods-podu_1.slice"
    assert one.sandbox_group == f"{one.group}/cri-containerd-box.scope"
    main, side = one.containers
    assert (main.limits, main.is_sized, main.is_pinned) == ({CPU: 500}, False, True)
    assert (side.limits, side.is_sized) == ({MEMORY: GIB}, True)
    assert isinstance(seen.status, Problem) is False


def test_a_pod_that_says_too_much_is_no_harm_to_others():
    greedy = pod(container(), annotations={BURST: '{"policy":"auto","cpuBurstPercent":' + "9" * 400 + "}"})
    found = CPU_BURST_STRATEGY.decide(Snapshot(NODE, (greedy,)), effective({}), CPU_BURST_STRATEGY.memory)
    assert found.wanted == ()
    less = Protected("Burstable", GIB, {"minLimitPercent": -100_000})
    assert class_values([less, Protected("Burstable", GIB, {"minLimitPercent": 50})])["Burstable"] == {
        "memory.min": GIB // 2
    }


def test_a_section_of_the_wrong_kind_is_not_there():
    spec = effective({"resourceQOSStrategy": {"systemClass": "x", "lsClass": 3}})
    node = NODE._replace(allocatable={MEMORY: GIB})
    found = MEMORY_QOS_STRATEGY.decide(Snapshot(node, (pod(container(), qos="SYSTEM"),)), spec, None)
    assert found.wanted == ()
