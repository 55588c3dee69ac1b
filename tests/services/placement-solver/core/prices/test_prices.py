"""Prices follow what arrives: sizes of shares, turnover, nodes that some are bound to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from berth.contracts.state import PodTemplate
from berth.placement_solver.core.devices import GPU, Want
from berth.placement_solver.core.prices.keeping import ASKED_FROM, LOOKED_AT_EVERY, PriceKeeping
from berth.placement_solver.core.prices.models import Models
from berth.placement_solver.core.prices.problem import Duals, price_problem
from berth.placement_solver.core.prices.program import solve
from berth.placement_solver.core.prices.scarcity import Scarcity
from berth.placement_solver.core.prices.table import KNOWN_FROM, UNKNOWN, Prices, prices_of, worth_by_free
from berth.placement_solver.core.prices.workload import Workload
from berth.testing.builders import GI, PodBuilder, gpu_slots, pod


def classes(run: Any, *builders: PodBuilder) -> list[Any]:
    """Of each its class, priced."""
    run.pods(builders)
    units, _ = run.cluster.batch(len(builders))
    found = [candidate.cls for unit in units for candidate in unit.candidates]
    for cls in found:
        run.cluster.solver.costs.of(cls)
    return found


@pytest.fixture
def run(solving: Any) -> Any:
    """Three nodes with GPUs of two models, and one without."""
    run = solving()
    for index, model in enumerate(("T4", "A100", "A100")):
        run.node(f"n{index}", cpu=64_000, labels={"model": model})
        run.devices(f"n{index}", gpu_slots(4))
    run.node("plain")
    return run


def test_few_arrivals_change_nothing(run: Any) -> None:
    (share,) = classes(run, pod("a").share(30))
    workload = Workload()
    for _ in range(KNOWN_FROM - 1):
        workload.came(share)
    assert prices_of(workload) == UNKNOWN


def test_a_card_is_worth_what_the_sizes_that_arrive_can_make_of_it(run: Any) -> None:
    third, more = classes(run, pod("a").share(30), pod("b").share(65))
    workload = Workload()
    for _ in range(KNOWN_FROM):
        workload.came(third)
        workload.came(more)
    prices = prices_of(workload)
    assert [size for size, _ in prices.shares] == [30, 65]
    worth = worth_by_free(prices)
    # By the smallest size of each range, 67 percent would count as a whole card; nobody who comes can use more of it
    # than two shares of 30.
    assert worth_by_free(UNKNOWN)[67] == pytest.approx(1.0)
    assert worth[67] == pytest.approx(2 / 3)
    assert worth[29] == 0.0
    assert worth[100] == pytest.approx(1.0)


def test_sizes_that_come_no_more_are_forgotten(run: Any) -> None:
    thirty, seventy = classes(run, pod("a").share(30), pod("b").share(70))
    workload = Workload()
    for _ in range(KNOWN_FROM):
        workload.came(thirty)
    before = prices_of(workload)
    for _ in range(40_000):
        workload.came(seventy)
    after = prices_of(workload, before)
    assert [size for size, _ in before.shares] == [30]
    assert [size for size, _ in after.shares] == [70]


@pytest.mark.parametrize(("cores", "tight"), [(0.0, 0.0), (20.0, 0.0), (10.15, 0.5), (9.0, 1.0)])
def test_where_cores_run_out_first_room_is_looked_after_as_where_pods_leave(
    run: Any, cores: float, tight: float
) -> None:
    """Two pods of six cores, one of them without GPUs, for each 1.2 GPUs: ten cores beside a GPU."""
    card, share, plain = classes(
        run, pod("a").gpus(1).requests(cpu=6000), pod("b").share(20).requests(cpu=0), pod("c").requests(cpu=6000)
    )
    workload = Workload()
    for _ in range(KNOWN_FROM):
        for cls in (card, share, plain):
            workload.came(cls)
    prices = prices_of(workload, cores=cores)
    assert prices.turning_over == tight
    assert bool(prices.typical) is bool(tight)
    for _ in range(5 * KNOWN_FROM):  # more come without those that need none
        for cls in (card, share):
            workload.came(cls)
    assert prices_of(workload, prices, cores=cores).turning_over == 0.0


def test_cores_of_all_nodes_count_for_each_gpu(run: Any) -> None:
    card, plain = classes(run, pod("a").gpus(1).requests(cpu=16_000), pod("b").requests(cpu=6000))
    keeping = run.cluster.prices
    for _ in range(KNOWN_FROM):
        keeping.workload.came(card)
        keeping.workload.came(plain)
    keeping.look(0)
    assert keeping.basis[0].turning_over == 1.0  # 22 cores are asked for beside each GPU, and there are 21


def test_who_has_no_gpu_does_not_count(run: Any) -> None:
    (plain,) = classes(run, pod("a").requests(cpu=100, memory=GI))
    workload = Workload()
    workload.came(plain)
    assert workload.arrivals == 0


def test_as_many_leave_as_come(run: Any) -> None:
    (share,) = classes(run, pod("a").share(30))
    workload = Workload()
    for _ in range(KNOWN_FROM):
        workload.came(share)
    assert prices_of(workload).turning_over == 0.0
    for _ in range(4000):
        workload.came(share)
        workload.left()
    assert prices_of(workload).turning_over == 1.0


def test_nodes_that_some_are_bound_to_are_scarce(run: Any) -> None:
    bound, free = classes(run, pod("a").gpus(1).only_on("model", "T4"), pod("b").gpus(1))
    workload = Workload()
    for _ in range(10):
        workload.came(bound)
        workload.came(free)
        workload.came(free)
    costs = run.cluster.solver.costs
    scarcity = Scarcity(run.cluster.nodes, costs.suitable).of(workload)
    # A third of what asks for all 12 GPUs has to go to 4 of them.
    assert scarcity.tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0], rel=0.01)
    before = costs.of(free).copy()
    costs.use(UNKNOWN, scarcity)
    grown = costs.of(free)[:3] - before[:3]
    assert grown[0] > 1.0
    assert np.abs(grown[1:]).max() < 1e-9


def test_nobody_is_bound(run: Any) -> None:
    (free,) = classes(run, pod("a").gpus(1))
    workload = Workload()
    workload.came(free)
    assert Scarcity(run.cluster.nodes, run.cluster.solver.costs.suitable).of(workload).size == 0


def test_a_solver_goes_by_what_it_sees(run: Any) -> None:
    number = max(LOOKED_AT_EVERY, KNOWN_FROM) + LOOKED_AT_EVERY
    for start in range(0, number, 50):
        run.pods([pod(f"p{start + index}").share(35) for index in range(50)])
        while run.cluster.queue.has_ready(run.cluster.now):
            units, _ = run.cluster.batch(50)
            for unit in units:
                run.cluster.solver.costs.of(unit.candidates[0].cls)
    run.cluster.batch(1)
    assert run.cluster.solver.costs.basis.prices == Prices(((35, 1 / 3),), 0.0)


def test_what_changes_no_price_makes_no_costs_anew(run: Any) -> None:
    basis = run.cluster.solver.costs.basis
    run.pods([pod(f"p{index}").gpus(1) for index in range(LOOKED_AT_EVERY)])
    run.cluster.batch(LOOKED_AT_EVERY)
    run.cluster.batch(1)
    assert run.cluster.prices.workload.arrivals >= LOOKED_AT_EVERY
    assert run.cluster.solver.costs.basis is basis


def test_a_pod_that_had_a_node_and_is_gone_has_left(run: Any) -> None:
    workload = run.cluster.prices.workload
    run.pod(pod("a").gpus(1).set(node="n0", phase="Running"))
    run.pod(pod("b").gpus(1))
    run.pod(pod("c").requests(cpu=1).set(node="n0", phase="Running"))
    run.cluster.batch(1)
    assert workload.turnover == 0.0
    run.delete_pod("b")
    run.delete_pod("c")
    assert workload.turnover == 0.0
    run.pod(pod("a").gpus(1).set(node="n0", phase="Succeeded"))
    assert workload.turnover == pytest.approx(1.0, rel=0.01)
    run.delete_pod("a")
    assert workload.turnover == pytest.approx(1.0, rel=0.01)


def test_who_is_looked_at_several_times_has_come_once(run: Any) -> None:
    """By who asks why it waits, and by rounds in which it was not tried after all."""
    run.pod(pod("a").gpus(1))
    for _ in range(3):
        run.cluster.candidates([("default", "a")])
    run.cluster.batch(1)
    run.cluster.queue.make_ready(run.cluster.queue.waiting["default", "a"])
    run.cluster.batch(1)
    assert run.cluster.prices.workload.arrivals == 1


class Asked:
    """A class that nobody else is of."""

    want = Want(GPU, (100, 0, 100), 1)
    template = PodTemplate()
    requests: dict[str, int] = {}
    price = None


def test_how_many_leave_is_known_whatever_classes_they_are_of() -> None:
    workload = Workload()
    for at in range(12_000):
        workload.came(Asked())  # type: ignore[arg-type]
        if at % 4 == 0:
            workload.left()
    assert workload.turnover == pytest.approx(0.25, rel=0.01)


def test_many_classes_are_kept_within_bounds() -> None:
    workload = Workload()
    for _ in range(5000):
        workload.came(Asked())  # type: ignore[arg-type]
    assert len(list(workload.classes())) <= 1024
    assert sum(part for _, part in workload.classes()) == pytest.approx(1.0)


def keeping(run: Any, *sizes: int) -> tuple[PriceKeeping, list[Any]]:
    """The prices of a solver that has seen as many shares of each size, and the classes."""
    found = classes(run, *(pod(f"s{size}").share(size).requests(cpu=100) for size in sizes))
    prices = PriceKeeping(run.cluster.nodes, run.cluster.solver.costs, run.cluster.quotas)
    for _ in range(ASKED_FROM):
        for cls in found:
            prices.workload.came(cls)
    prices.look(1)
    return prices, found


def test_duals_are_what_a_share_denies(run: Any) -> None:
    """A third of a card each for three that fill it; a large share denies all, since nothing fits beside it."""
    prices, _ = keeping(run, 33, 80)
    question = prices.question(1)
    assert question is not None
    answer = solve(question)
    assert answer is not None
    assert answer.shares[33] == pytest.approx(1 / 3, abs=1e-4)
    assert answer.shares[80] == pytest.approx(1.0, abs=1e-4)
    assert prices.answered(answer, 2) is None
    assert prices.last.name == "used"


def test_shares_that_fill_a_card_together_divide_its_price(run: Any) -> None:
    """By the ranges 30 and 70 percent together would be worth more than the card."""
    prices, _ = keeping(run, 30, 70)
    question = prices.question(1)
    assert question is not None
    answer = solve(question)
    assert answer is not None
    assert answer.shares[30] + answer.shares[70] == pytest.approx(1.0, abs=1e-4)
    assert prices.answered(answer, 2) is None
    assert worth_by_free(run.cluster.solver.costs.basis.prices)[100] == pytest.approx(1.0, abs=1e-3)


def test_cards_of_a_model_that_many_are_bound_to_are_dear(run: Any) -> None:
    bound, free = classes(run, pod("a").gpus(1).only_on("model", "T4"), pod("b").gpus(1))
    workload = Workload()
    for _ in range(8):
        workload.came(bound)
        workload.came(free)
    run.node("n0", cpu=64_000, labels={"model": "T4", "node.koordinator.sh/gpu-model": "T4"})
    found = price_problem(workload, Models(run.cluster.nodes), run.cluster.solver.costs.suitable, run.cluster.quotas)
    assert found is not None
    question, _ = found
    answer = solve(question)
    assert answer is not None
    (bound_to,) = [suits for suits in question.suits if not all(suits)]
    (dear,), (other,) = (
        [card for card, suits in zip(answer.cards, bound_to, strict=True) if suits is of] for of in (True, False)
    )
    assert dear > other


def test_a_whole_card_that_is_called_a_share_is_a_card(run: Any) -> None:
    prices, _ = keeping(run, 33, 100)
    question = prices.question(1)
    assert question is not None
    assert max(question.share) < 100
    answer = solve(question)
    assert answer is not None
    assert answer.shares[33] == pytest.approx(1 / 3, abs=1e-4)


def test_the_same_is_not_asked_twice_and_another_mix_is(run: Any) -> None:
    prices, (third, most) = keeping(run, 33, 80)
    assert prices.question(1) is not None
    for _ in range(LOOKED_AT_EVERY):
        prices.workload.came(third)
        prices.workload.came(most)
    prices.look(1)
    assert prices.question(1) is None
    for _ in range(1000):
        prices.workload.came(most)
    prices.look(1)
    assert prices.question(1) is not None
    prices.unanswered("late", "it took too long", 2)
    assert prices.question(1) is None, "not before the next look"
    for _ in range(LOOKED_AT_EVERY):
        prices.workload.came(most)
    prices.look(1)
    assert prices.question(1) is not None


GOOD = [0.0] * 33 + [1 / 3] * 47 + [1.0] * 20


def made(shares: list[float], **changed: list[float]) -> Duals:
    """An answer about nodes of one kind without quotas, and pods of two classes."""
    rest = {"cards": [0.5], "cores": [0.0], "quotas": [], "short": [0.0, 0.0]} | changed
    return Duals(shares, **rest)


def ask(run: Any, prices: PriceKeeping, classes: list[Any]) -> None:
    """The next question."""
    for _ in range(2 * prices.workload.arrivals):
        for cls in classes:
            prices.workload.came(cls)
    prices.look(1)
    assert prices.question(1) is not None


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (made([0.5] * 99), "malformed"),
        (made([0.0] * 100), "worthless"),
        (made([0.5] * 40 + [float("nan")] + [0.5] * 59), "nan"),
        (made([0.5] * 3 + [-0.2] + [0.5] * 96), "negative"),
        (made([0.5] * 99 + [7.0]), "excessive"),
        (made([float("inf")] * 100), "excessive"),
        (made(GOOD, cards=[]), "malformed"),
        (made(GOOD, cards=[float("nan")]), "nan"),
        (made(GOOD, cores=[-1.0]), "negative"),
        (made(GOOD, short=[0.0, float("inf")]), "excessive"),
        (made([0.0] * 33 + [0.9] * 47 + [0.9] * 20), "jump"),
    ],
)
def test_an_absurd_answer_is_refused_by_name(run: Any, answer: Duals, name: str) -> None:
    prices, found = keeping(run, 33, 80)
    assert prices.question(1) is not None
    assert prices.answered(made(GOOD), 1000) is None
    before, version = run.cluster.solver.costs.basis, prices.version
    assert version == 1000
    ask(run, prices, found)
    refusal = prices.answered(answer, 2000)
    assert refusal is not None
    assert refusal.name == prices.last.name == name
    assert prices.counts == {"used": 1, name: 1}
    assert run.cluster.solver.costs.basis is before
    assert prices.version == version


def test_a_jump_that_is_said_twice_is_none(run: Any) -> None:
    prices, found = keeping(run, 33, 80)
    assert prices.question(1) is not None
    assert prices.answered(made(GOOD), 1) is None
    for answer, name in (
        ([0.9] * 100, "jump"),
        ([0.0] * 33 + [0.1] * 67, "jump"),
        ([0.0] * 33 + [0.12] * 67, "used"),
    ):
        ask(run, prices, found)
        prices.answered(made(answer), 2)
        assert prices.last.name == name


def test_prices_of_shares_stay_constants_where_nobody_shares_cards(run: Any) -> None:
    (cards,) = classes(run, pod("a").gpus(1))
    prices = PriceKeeping(run.cluster.nodes, run.cluster.solver.costs, run.cluster.quotas)
    for _ in range(ASKED_FROM):
        prices.workload.came(cards)
    prices.look(1)
    assert prices.question(1) is not None
    assert prices.answered(made([0.0] * 100, short=[0.0]), 2) is None
    assert prices.duals == ()
