"""Whether another mix has come, and since when: soon where it has, and not by chance or for bursts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from berth.placement_solver.core.prices.changing import BLOCKS, LEAST, REMEMBERED, Block, Changing, Mix
from berth.placement_solver.core.prices.table import mix_of, prices_of
from berth.placement_solver.core.prices.workload import BLOCK, Workload
from berth.testing.builders import pod

FORTY = np.array([10, 20, 30, 25, 10, 5]) / 100
SIXTY = np.array([20, 30, 25, 15, 7, 3]) / 100


def block(parts: np.ndarray[Any, Any], rng: np.random.Generator, number: int, *, burst: int = 1, plain: int = 0) -> Any:
    """As many arrivals as one has, in bursts of alike ones."""
    drawn = rng.choice(parts.size, BLOCK // burst, p=parts)
    kinds = Counter({f"k{kind}": burst * count for kind, count in Counter(drawn.tolist()).items()})
    return Block(Mix(Counter(kinds), plain), number)


def found_in(changing: Changing[int], blocks: list[Any]) -> list[tuple[int, list[int]]]:
    """With the number of the block at which it was seen, those that are of another mix."""
    return [(each.content, since) for each in blocks if (since := changing.add(each)) is not None]


@pytest.mark.parametrize("seed", range(5))
def test_another_mix_is_found_from_its_first_block_on(seed: int) -> None:
    rng, changing = np.random.default_rng(seed), Changing[int]()
    assert found_in(changing, [block(FORTY, rng, at) for at in range(30)]) == []
    ((_, since),) = found_in(changing, [block(SIXTY, rng, at) for at in range(30, 36)])
    assert since[0] in (29, 30, 31)
    assert len(since) >= LEAST


@pytest.mark.parametrize("burst", [1, 5, 20])
def test_one_mix_stays_one_whatever_chance_and_bursts_make_of_it(burst: int) -> None:
    rng, changing = np.random.default_rng(burst), Changing[int]()
    assert found_in(changing, [block(FORTY, rng, at, burst=burst, plain=30) for at in range(150)]) == []


def test_a_mix_that_moves_by_little_stays_one() -> None:
    """Many arrivals would tell even small differences from chance."""
    rng, changing = np.random.default_rng(1), Changing[int]()
    other = FORTY + np.array([2, -2, 0, 1, -1, 0]) / 100
    blocks = [block(FORTY if at < 30 else other, rng, at) for at in range(60)]
    assert found_in(changing, blocks) == []


def test_a_burst_that_is_over_is_no_other_mix() -> None:
    rng, changing = np.random.default_rng(1), Changing[int]()
    blocks = [block(FORTY, rng, at) for at in range(40)]
    blocks[30] = Block(Mix(Counter({"k9": BLOCK})), 30)
    assert found_in(changing, blocks) == []


def test_more_pods_without_gpus_are_another_mix() -> None:
    rng, changing = np.random.default_rng(1), Changing[int]()
    blocks = [block(FORTY, rng, at, plain=int(rng.poisson(30 if at < 20 else 66))) for at in range(26)]
    ((seen_at, since),) = found_in(changing, blocks)
    assert since[0] == 20
    assert seen_at <= 23


def test_what_is_kept_is_bounded() -> None:
    rng, changing = np.random.default_rng(1), Changing[int]()
    found_in(changing, [block(FORTY, rng, at) for at in range(60)])
    assert len(changing._blocks) == BLOCKS
    assert 0.9 * REMEMBERED < changing._before.kinds.total() <= REMEMBERED


def test_a_workload_forgets_what_came_before_another_mix(solving: Any) -> None:
    run = solving()
    run.pods([pod("a").share(30), pod("b").share(60), pod("c").requests(cpu=8000)])
    units, _ = run.cluster.batch(3)
    thirty, sixty, plain = sorted(
        (candidate.cls for unit in units for candidate in unit.candidates),
        key=lambda cls: (cls.want is None, cls.template.requests.get("koordinator.sh/gpu-core", 0)),
    )
    for cls in (thirty, sixty):
        run.cluster.solver.costs.of(cls)
    workload = Workload()
    for _ in range(3000):
        workload.came(thirty, ("", "team-a"))
        workload.left()
    before = prices_of(workload)
    for at in range(LEAST * BLOCK):
        workload.came(sixty if at % 4 else thirty, ("", "team-b"))
        workload.came(plain)
    assert workload.began == 3000
    assert mix_of(workload) == {30: pytest.approx(0.25), 60: pytest.approx(0.75)}
    assert sum(part for _, part in workload.classes()) == pytest.approx(1.0)
    assert {payer for _, payer, _ in workload.paid()} == {("", "team-b")}
    assert workload.turnover < 0.01
    assert workload.plain_cores == pytest.approx(8.0)
    assert [size for size, _ in prices_of(workload, before).shares] == [30, 60]
