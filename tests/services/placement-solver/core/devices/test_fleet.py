"""The arrays over all nodes must say what the exact choice says, node by node."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.placement_solver.core.devices import (
    GPU,
    RDMA,
    Cards,
    Fleet,
    NoCapacity,
    Slot,
    Want,
    allocate,
    charge,
    gpu_want,
)

GI = 1 << 30
MEMORIES = [16 * GI, 85_198_045_184, 7, 0]
slot_parts = st.tuples(
    st.booleans(), st.sampled_from(MEMORIES), st.integers(0, 120), st.integers(0, 120), st.integers(0, 20 * GI)
)
shares = st.integers(1, 100)
wants = st.one_of(
    st.builds(lambda n: {names.GPU_CORE: 100 * n, names.GPU_MEMORY_RATIO: 100 * n}, st.integers(1, 3)),
    st.builds(lambda p: {names.GPU_CORE: p, names.GPU_MEMORY_RATIO: p}, shares),
    st.builds(lambda n, p: {names.GPU_SHARED: n, names.GPU_MEMORY_RATIO: n * p}, st.integers(1, 3), shares),
    st.builds(lambda n, b: {names.GPU_SHARED: n, names.GPU_MEMORY: n * b}, st.integers(1, 3), st.integers(1, 17 * GI)),
    st.builds(lambda b: {names.GPU_MEMORY: b}, st.integers(1, 2**62)),
    st.builds(lambda p: {names.NPU_CORE: p, names.GPU_MEMORY_RATIO: 100}, shares),
)


def node(parts: list[tuple[bool, int, int, int, int]]) -> tuple[Slot, ...]:
    return tuple(
        Slot(
            minor,
            (100, 100, memory, 8 if memory == 7 else 0, 0, 0) if healthy else GPU.zero,
            (core, ratio, held, 0, 0, 0),
        )
        for minor, (healthy, memory, core, ratio, held) in enumerate(parts)
    )


@given(st.lists(st.lists(slot_parts, max_size=10), max_size=6), wants)
def test_fits_where_the_exact_choice_finds_devices(
    cluster: list[list[tuple[bool, int, int, int, int]]], request: dict[str, int]
) -> None:
    want = gpu_want(request)
    assert want is not None
    fleet = Fleet(GPU, 1, 2)
    nodes = [node(parts) for parts in cluster]
    for row, slots in enumerate(nodes):
        fleet.write([row], [slots])
    expected = [not isinstance(allocate(slots, want), NoCapacity) for slots in nodes]
    assert fleet.fits(want)[: len(nodes)].tolist() == expected
    assert not fleet.fits(want)[len(nodes) :].any()
    for row, slots in enumerate(nodes):
        cards = Cards(slots)
        assert cards.fit(want) == expected[row]
        serving = fleet.candidates(want)[:, row]
        assert cards.serving(want).devices == np.count_nonzero(serving)
        assert min(cards.serving(want).least, 100) == min(fleet.percent[serving, row].tolist(), default=100)
        assert (cards.percent, cards.whole) == (fleet.percent_sum[row], fleet.whole()[row])


def eight(busy: int, part: int = 0) -> tuple[Slot, ...]:
    total = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 80 * GI}
    held = dict.fromkeys(range(busy), total)
    if part:
        held[busy] = {name: amount * part // 100 for name, amount in total.items()}
    return tuple(Slot(minor, GPU.vector(total), GPU.vector(held.get(minor, {}))) for minor in range(8))


def test_one_row_is_judged_as_it_is_among_all() -> None:
    fleet = Fleet(GPU, 3)
    for row in range(3):
        fleet.write([row], [eight(5 + row, part=25 if row < 2 else 0)])
    want = gpu_want({names.GPU_SHARED: 2, names.GPU_MEMORY: 130 * GI})
    assert want is not None
    assert fleet.fits(want).tolist() == [True, False, False]
    for rows in (slice(1, 2), np.array([2, 0])):
        assert fleet.fits(want, rows).tolist() == fleet.fits(want)[rows].tolist()
        assert fleet.whole(rows).tolist() == fleet.whole()[rows].tolist()
    assert fleet.whole().tolist() == [2, 1, 1]


def test_rows_grow_shrink_and_follow_a_placement() -> None:
    fleet = Fleet(GPU, 0, 0)
    want = gpu_want({names.GPU_CORE: 700, names.GPU_MEMORY_RATIO: 700})
    assert want is not None
    slots = eight(0)
    fleet.write([5], [slots])
    assert fleet.fits(want).tolist().index(True) == 5
    answer = allocate(slots, want)
    assert not isinstance(answer, NoCapacity)
    fleet.write([5], [charge(slots, answer)])
    assert not fleet.fits(want).any()
    fleet.write([5], [()])
    assert not fleet.fits(gpu_want({names.GPU_MEMORY_RATIO: 1}) or want).any()
    assert fleet.nodes >= 6


def test_devices_of_one_column() -> None:
    fleet = Fleet(RDMA, 2, 4)
    fleet.write([1], [(Slot(1, (100,), (60,)), Slot(2, (100,), (0,)))])
    assert fleet.fits(Want(RDMA, (50,), 1, shared=True)).tolist() == [False, True]
    assert fleet.fits(Want(RDMA, (50,), 2, shared=True)).tolist() == [False, False]
