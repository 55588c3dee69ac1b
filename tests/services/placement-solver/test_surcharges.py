"""What hooks say, by QUOTA, in the rounds of a solver: it is waited for, charged beside the request, and refuses.

In random worlds nothing is placed that the verifier does not accept, and no group is charged beyond its max.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.quota import HookRefusal, PodCharge, QuotaRules
from berth.contracts.state import Pod
from berth.placement_solver.core.waits import WORKED_OUT_S
from berth.rules.quota_hooks.seen import class_id, hooked_pod
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.testing.builders import PodBuilder, pod

SEAT = "licences.example.com/seat"
HOOKED = QuotaRules(hooks=["licences"], hook_resources=[SEAT])


@pytest.fixture
def run(solving: type[Any]) -> Any:
    return begun(solving())


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run)


def begun(run: Any, *, seats: int = 3) -> Any:
    run.node("n0", cpu=64_000)
    run.quota("above", max={SEAT: 2 * seats, names.CPU: 64_000}, rules=HOOKED, is_parent=True)
    run.quota("team", max={SEAT: seats, names.CPU: 64_000}, rules=HOOKED, parent="above", ancestors=["above"])
    run.quota(DEFAULT_GROUP, rules=HOOKED)
    return run


def sized(name: str, kind: str = "solver", group: str = "team") -> PodBuilder:
    return pod(name).requests(cpu=1000).label("app", kind).label(names.LABEL_QUOTA_NAME, group)


def says(run: Any, seen: Pod, seats: int = 0, *refusals: str, group: str = "team") -> PodCharge:
    """QUOTA: what hooks say of the class of a pod."""
    charge = PodCharge(
        id=class_id(hooked_pod(seen.namespace, seen.template)),
        group=group,
        surcharge={SEAT: seats} if seats else {},
        refusals=[HookRefusal(hook="licences", message=each) for each in refusals],
    )
    run.cluster.read_quota(subjects.charge_key(charge.id), encode(charge), False)
    return charge


def reasons(run: Any) -> dict[str, list[str]]:
    return {name[1]: [each.message for each in w.reasons] for name, w in run.cluster.queue.waiting.items()}


async def test_what_hooks_charge_keeps_no_min_from_being_promised(solving: type[Any]) -> None:
    """Nobody lends it, so the mins of groups do not name it: what was lent of cores comes back all the same."""
    run = solving()
    run.node("n0", cpu=2000)
    cores = {names.CPU: 1000}
    owned = {"min": cores, "effective_min": cores, "rules": HOOKED}
    run.quota("team", max={SEAT: 3, names.CPU: 9000}, runtime={SEAT: 3, **cores}, **owned)
    run.quota("other", max={names.CPU: 9000}, runtime=cores, **owned)
    run.quota(DEFAULT_GROUP, rules=HOOKED)
    for at in range(2):
        lent = sized(f"lent-{at}", "plain", "other").annotation(names.ANNOTATION_QUOTA, "/other")
        run.pod(lent.template(priority=at).on("n0"))
    says(run, run.pod(sized("mine")), 1)
    await SolverBench(run, preempts=True).until_idle()
    decision = run.cluster.book.ledger.decisions[("default", "mine")].decision
    assert [each.name for each in decision.victims] == ["lent-0"]
    assert decision.surcharge == {SEAT: 1}


async def test_a_pod_waits_for_what_hooks_say_and_is_charged_so(run: Any, bench: SolverBench) -> None:
    seen = run.pod(sized("p"))
    await bench.until_idle()
    assert reasons(run) == {"p": ["what hooks of quotas say of such pods is not known yet"]}
    says(run, seen, 2)
    bench.clock.time += 1
    await bench.until_idle()
    assert bench.placed() == {"p": "n0"}
    decision = run.cluster.book.ledger.decisions[("default", "p")].decision
    assert decision.surcharge == {SEAT: 2}
    assert decision.allocation.amounts == {names.CPU: 1000}, "a node gives no seats"
    assert run.cluster.quotas.used(("", "above")) == {names.CPU: 1000, SEAT: 2}


async def test_what_hooks_say_of_a_group_wakes_its_pods_alone(run: Any, bench: SolverBench) -> None:
    run.quota("others", max={SEAT: 3, names.CPU: 64_000}, rules=HOOKED)
    for group, kind in (("team", "a"), ("others", "b")):
        says(run, run.pod(sized(group, kind, group)), 9, group=group)
    await bench.until_idle()
    waiting = run.cluster.queue.waiting
    assert {name[1]: each.tries for name, each in waiting.items()} == {"team": 1, "others": 1}
    says(run, waiting["default", "team"].object, 1)
    says(run, waiting["default", "others"].object, 9, group="others")  # as before
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed() == {"team": "n0"}
    assert waiting["default", "others"].tries == 1


async def test_what_was_decided_counts_whatever_hooks_say_later(run: Any, bench: SolverBench) -> None:
    builder = sized("p")
    says(run, run.pod(builder), 2)
    await bench.until_idle()
    bound = run.bind(builder)
    assert bound.template.annotations[names.ANNOTATION_QUOTA_SURCHARGE] == f'{{"{SEAT}":"2"}}'
    run.quota(DEFAULT_GROUP)
    run.cluster.payers.settle(run.cluster.book)
    assert run.cluster.quotas.used(("", "team")) == {names.CPU: 1000, SEAT: 2}
    run.delete_pod("p")
    assert not any(run.cluster.quotas.used(("", "team")).values())


async def test_a_max_limits_what_hooks_charge(run: Any, bench: SolverBench) -> None:
    for at in range(5):
        says(run, run.pod(sized(f"p{at}")), 1)
    await bench.until_idle()
    assert len(bench.placed()) == 3
    bench.clock.time += 10
    await bench.until_idle()
    assert {text for each in reasons(run).values() for text in each} == {
        f"quota team: use of {SEAT} 3 + 1 exceeds its max 3"
    }
    assert {each.repair for waiting in run.cluster.queue.waiting.values() for each in waiting.reasons} == {
        f"free 1 {SEAT} in quota team, or raise max of quota team to 4 {SEAT}"
    }
    run.delete_pod("p0")
    bench.clock.time += 60
    await bench.until_idle()
    assert len(bench.placed()) == 4


async def test_a_hook_refuses_by_name_until_it_says_otherwise(run: Any, bench: SolverBench) -> None:
    seen = run.pod(sized("p"))
    says(run, seen, 0, "no licence")
    await bench.until_idle()
    bench.clock.time += 10
    await bench.until_idle()
    assert reasons(run) == {"p": ["quota team: hook licences refuses the pod: no licence"]}
    (reason,) = run.cluster.queue.waiting["default", "p"].reasons
    assert reason.repair == "change what hook licences looks at, in the pod or its quota"
    says(run, seen)
    bench.clock.time += 60
    await bench.until_idle()
    assert bench.placed() == {"p": "n0"}


async def test_what_was_said_for_another_group_does_not_count(run: Any, bench: SolverBench) -> None:
    says(run, run.pod(sized("p")), 1, group=DEFAULT_GROUP)
    await bench.until_idle()
    assert bench.placed() == {}
    bench.clock.time += WORKED_OUT_S + 1
    await bench.until_idle()
    assert bench.placed() == {}
    assert "p" in bench.commands.refusals(), "in the end it is told what it waits for"


async def test_quota_that_begins_anew_says_it_again(run: Any, bench: SolverBench) -> None:
    seen = run.pod(sized("p"))
    says(run, seen, 1)
    run.cluster.reset_quota()
    begun(run)
    await bench.until_idle()
    assert bench.placed() == {}
    says(run, seen, 1)
    bench.clock.time += 1
    await bench.until_idle()
    assert bench.placed() == {"p": "n0"}


async def test_a_gang_needs_what_hooks_charge_for_all_its_members(run: Any, bench: SolverBench) -> None:
    for name, count in (("large", 4), ("small", 3)):
        run.pod_group(name, count)
        for at in range(count):
            says(run, run.pod(sized(f"{name}-{at}").gang(name)), 1)
    await bench.until_idle()
    assert sorted(bench.placed()) == ["small-0", "small-1", "small-2"]


def test_the_verifier_knows_what_hooks_say(run: Any) -> None:
    seen = run.pod(sized("p"))
    says(run, seen, 2)
    (placement,) = run.solve()[0].placements
    claim = placement.claim
    run.cluster.capacity.apply(claim, -1)
    assert run.verifier.check([claim]) == []
    assert "charged {} beyond its request, hooks say" in run.verifier.check([claim._replace(surcharge={})])[0]
    says(run, seen, 2, "no licence")
    assert run.verifier.check([claim]) == ["default/p: hook licences refuses it: no licence"]
    says(run, seen, 2, group="above")
    assert run.verifier.check([claim]) == ["default/p: what hooks say of it is not known"]
    run.quota(DEFAULT_GROUP)
    assert "of which no hook says anything" in run.verifier.check([claim])[0]


KINDS = st.sampled_from(["a", "b", "c"])


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 6),
    st.lists(st.tuples(KINDS, st.sampled_from(["team", "above", ""]), st.booleans()), min_size=1, max_size=8),
    st.dictionaries(KINDS, st.tuples(st.integers(0, 3), st.booleans()), max_size=3),
    st.lists(st.tuples(KINDS, st.integers(0, 3)), max_size=3),
)
def test_no_group_is_charged_beyond_its_max_and_the_verifier_accepts_what_is_placed(
    solving: type[Any],
    seats: int,
    pods: list[tuple[str, str, bool]],
    said: dict[str, tuple[int, bool]],
    later: list[tuple[str, int]],
) -> None:
    """Hooks charge, refuse, or have said nothing yet, and change their mind while pods are placed one after the
    other."""
    run = begun(solving(), seats=seats)
    seen: dict[str, list[tuple[Pod, str]]] = {}
    for at, (kind, group, is_non_preemptible) in enumerate(pods):
        builder = sized(f"p{at}", kind, group).template(priority=at)
        builder = builder.label(names.LABEL_QUOTA_PREEMPTIBLE, "false") if is_non_preemptible else builder
        seen.setdefault(kind, []).append((run.pod(builder), group or DEFAULT_GROUP))

    def say(kind: str, amount: int, *refusals: str) -> None:
        for each, group in seen.get(kind, ()):
            says(run, each, amount, *refusals, group=group)

    charged: dict[str, int] = {}
    for kind, (amount, refuses) in said.items():
        say(kind, amount, *(["no"] if refuses else []))
    for kind, amount in [("", 0), *later]:
        say(kind, amount)
        solution = run.round(limit=2)
        for placement in solution.placements:
            charged[placement.candidate.name[1]] = placement.claim.surcharge.get(SEAT, 0)
            kind_of = placement.candidate.object.template.labels["app"]
            assert kind_of in said or kind_of in dict(later)
        for group, most in (("team", seats), ("above", 2 * seats)):
            assert run.cluster.quotas.used(("", group)).get(SEAT, 0) <= most
    used = sum(amount for name, amount in charged.items() if pods[int(name[1:])][1])
    assert run.cluster.quotas.used(("", "above")).get(SEAT, 0) == used
