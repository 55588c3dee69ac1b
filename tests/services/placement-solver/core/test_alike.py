"""What is worked out once for pods that say the same is what each of them would be told by itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.kube import OwnerReference, Taint
from berth.testing.builders import GI, PodBuilder, pod

MEMBERS = 6


@st.composite
def members(draw: st.DrawFn) -> list[PodBuilder]:
    """Members of one gang that differ in one thing or another, or in nothing but their names."""
    found = []
    for at in range(MEMBERS):
        builder = pod(f"m{at}").requests(cpu=1000 * draw(st.integers(1, 2)), memory=GI).gang("g")
        if draw(st.booleans()):
            builder.tolerates("dedicated")
        if draw(st.booleans()):
            builder.label("app", "web").apart("zone", {"app": "web"})
        wish = draw(st.sampled_from(["", "ignored", "broken", "exact"]))
        if wish == "ignored":
            builder.label(names.LABEL_RESERVATION_IGNORED, "true")
        elif wish == "broken":
            builder.annotation(names.ANNOTATION_RESERVATION_AFFINITY, "{")
        elif wish == "exact":
            builder.annotation(names.ANNOTATION_RESERVATION_EXACT, '{"resourceNames": ["cpu"]}')
        if draw(st.booleans()):
            builder.quota("team", non_preemptible=draw(st.booleans()))
        if draw(st.booleans()):
            builder.set(owners=[OwnerReference(kind="Job", name="j", uid="j", controller=True)])
        found.append(builder)
    return found


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_members_of_a_gang_are_compiled_as_each_by_itself(solving: type[Any], data: Any) -> None:
    run = solving()
    run.quota("team", max={names.CPU: 100_000})
    run.node("n0", labels={"zone": "z0"})
    run.pod_group("g", MEMBERS)
    run.pods(data.draw(members()))
    (unit,), _ = run.cluster.batch(200)
    assert len(unit.candidates) == MEMBERS
    solver = run.cluster.solver
    for candidate in unit.candidates:
        assert run.cluster.candidates([candidate.name]) == [candidate]
        claim = solver._make_claim(candidate, 0, (), "plan")  # after the claim of the one before
        solver._made = None
        assert solver._make_claim(candidate, 0, (), "plan") == claim
    assert solver._make_claim(unit.candidates[-1], 0, (), "another").plan == "another"


def test_the_verifier_looks_at_each_pod_that_differs_from_the_one_before_it(solving: type[Any]) -> None:
    run = solving()
    run.node("n0")
    run.pods(
        [
            pod("a").requests(cpu=1000).tolerates("dedicated"),
            pod("b").requests(cpu=1000),
            pod("c").requests(cpu=1000),
            pod("d").requests(cpu=1000).tolerates("dedicated"),
        ]
    )
    solution, trial = run.solve()
    trial.undo()
    run.node("n0", taints=[Taint(key="dedicated", value="", effect="NoSchedule")])
    a, b, c, d = sorted((each.claim for each in solution.placements), key=lambda claim: claim.name)
    assert run.verifier.check([a, d]) == []
    for claims, wrong in (([a, b], b), ([b, c], b), ([d, c, a], c)):
        problems = run.verifier.check(claims)
        assert [text.partition(":")[0] for text in problems] == ["/".join(wrong.name)]
        assert "taint" in problems[0]


def test_the_verifier_looks_at_each_claim_that_differs_from_the_one_before_it(solving: type[Any]) -> None:
    run = solving()
    for name in ("n0", "n1"):
        run.node(name)
    run.pods([pod(name).requests(cpu=1000) for name in "abc"])
    solution, trial = run.solve()
    trial.undo()
    a, b, c = sorted((each.claim._replace(node="n0") for each in solution.placements), key=lambda claim: claim.name)
    assert run.verifier.check([a, b, c]) == []
    for wrong, text in (
        (b._replace(amounts={names.CPU: 500}), "amounts"),
        (b._replace(ports=("0.0.0.0/TCP/80",)), "host ports"),
        (b._replace(attempt=b.attempt + 1), "attempt"),
        (b._replace(plan=""), "no plan"),
    ):
        for claims in ([a, wrong, c], [wrong, a, c]):
            problems = run.verifier.check(claims)
            assert [each.partition(":")[0] for each in problems] == ["default/b"], text
            assert text in problems[0]
    run.node("n1", taints=[Taint(key="dedicated", value="", effect="NoSchedule")])
    (problem,) = run.verifier.check([a, b._replace(node="n1"), c])
    assert problem.startswith("default/b")
    assert "taint" in problem


def test_what_nodes_impose_on_every_pod_ends_with_the_last_of_them(solving: type[Any]) -> None:
    run = solving()
    cores = run.cluster.nodes.cores
    imposing = {"labels": {names.LABEL_CPU_BIND_POLICY: "FullPCPUsOnly"}}
    assert not cores.imposes
    run.node("n0", **imposing)
    run.node("n1", **imposing)
    run.node("n0")
    assert cores.imposes
    run.node("n1", labels={"zone": "a"})
    assert not cores.imposes
