"""Choosing minors: laws that hold for any node and request, and the corners that vectors leave out."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names
from berth.placement_solver.core.devices import (
    GPU,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    Grant,
    NoCapacity,
    Scoring,
    Slot,
    Want,
    allocate,
    charge,
    gpu_want,
    release,
    scoring_of,
)
from berth.rules.devices.columns import CORE, MEMORY, RATIO
from berth.rules.devices.scoring import score

GI = 1 << 30
WHOLE = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 16 * GI}
POLICIES = [None, scoring_of(GPU, LEAST_ALLOCATED), scoring_of(GPU, MOST_ALLOCATED)]


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Slot, ...]:
    """Devices that are healthy or not, idle, shared, full or overcommitted, of sizes that do not divide well."""
    slots = []
    for minor in draw(st.lists(st.integers(0, 31), max_size=8, unique=True)):
        memory = draw(st.sampled_from([16 * GI, 24_564 * (1 << 20), 85_198_045_184, 7, 1]))
        total = (100, 100, memory, 0, 0, 0) if draw(st.integers(0, 5)) else GPU.zero
        core, ratio = draw(st.integers(0, 130)), draw(st.integers(0, 130))
        used = (core, ratio, draw(st.sampled_from([ratio * memory // 100, 0, memory])), 0, 0, 0)
        slots.append(Slot(minor, total, used if draw(st.booleans()) else GPU.zero))
    return tuple(slots)


@st.composite
def requests(draw: st.DrawFn) -> Want:
    cards = draw(st.integers(1, 4))
    percent = draw(st.integers(1, 100))
    request = draw(
        st.sampled_from(
            [
                {names.GPU_CORE: 100 * cards, names.GPU_MEMORY_RATIO: 100 * cards},
                {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent},
                {names.GPU_MEMORY_RATIO: percent},
                {names.GPU_SHARED: cards, names.GPU_CORE: percent * cards, names.GPU_MEMORY_RATIO: percent * cards},
                {names.GPU_SHARED: cards, names.GPU_MEMORY: percent * GI // 4 * cards},
                {names.GPU_CORE: percent, names.GPU_MEMORY: draw(st.integers(1, 90 * GI))},
            ]
        )
    )
    want = gpu_want(request)
    assert want is not None
    return want


@settings(max_examples=100)
@given(nodes(), requests(), st.sampled_from(POLICIES))
def test_no_device_gives_more_than_it_has_left(slots: tuple[Slot, ...], want: Want, policy: Scoring | None) -> None:
    answer = allocate(slots, want, scoring=policy)
    if isinstance(answer, NoCapacity):
        return
    by_minor = {slot.minor: slot for slot in slots}
    for minor, amounts, *_ in answer:
        assert all(amount <= left for amount, left in zip(amounts, by_minor[minor].free, strict=True))
    for slot in charge(slots, answer):
        if any(grant.minor == slot.minor for grant in answer):
            assert slot.used[CORE] <= 100 or slot.used[CORE] == by_minor[slot.minor].used[CORE]
            assert slot.used[RATIO] <= 100 or slot.used[RATIO] == by_minor[slot.minor].used[RATIO]
            assert slot.used[MEMORY] <= slot.total[MEMORY]


@settings(max_examples=100)
@given(nodes(), requests(), st.sampled_from(POLICIES))
def test_the_grants_are_the_request(slots: tuple[Slot, ...], want: Want, policy: Scoring | None) -> None:
    answer = allocate(slots, want, scoring=policy)
    if isinstance(answer, NoCapacity):
        return
    assert len({grant.minor for grant in answer}) == len(answer) == want.instances
    for _, amounts, *_ in answer:
        assert all(got == asked for got, asked in zip(amounts, want.amounts, strict=True) if asked)


@given(nodes(), requests(), st.sampled_from(POLICIES), st.randoms(use_true_random=False))
def test_order_of_listing_does_not_matter(
    slots: tuple[Slot, ...], want: Want, policy: Scoring | None, shuffle: random.Random
) -> None:
    mixed = list(slots)
    shuffle.shuffle(mixed)
    assert allocate(mixed, want, scoring=policy) == allocate(slots, want, scoring=policy)


@given(nodes(), requests(), st.sampled_from(POLICIES))
def test_giving_back_restores_the_node(slots: tuple[Slot, ...], want: Want, policy: Scoring | None) -> None:
    answer = allocate(slots, want, scoring=policy)
    if isinstance(answer, NoCapacity):
        return
    assert release(charge(slots, answer), answer) == tuple(sorted(slots, key=lambda slot: slot.minor))


@given(nodes(), requests())
def test_refused_only_if_too_few_devices_fit_alone(slots: tuple[Slot, ...], want: Want) -> None:
    alone = [slot for slot in slots if not isinstance(allocate([slot], want._replace(instances=1)), NoCapacity)]
    assert isinstance(allocate(slots, want), NoCapacity) == (len(alone) < want.instances)


@given(nodes(), requests(), st.sampled_from([LEAST_ALLOCATED, MOST_ALLOCATED]))
def test_the_choice_has_the_best_scores(slots: tuple[Slot, ...], want: Want, strategy: str) -> None:
    policy = scoring_of(GPU, LEAST_ALLOCATED if strategy == LEAST_ALLOCATED else MOST_ALLOCATED)
    answer = allocate(slots, want, scoring=policy)
    if isinstance(answer, NoCapacity):
        return
    taken = {grant.minor for grant in answer}
    points = {slot.minor: score(slot.total, slot.free, want.amounts, policy) for slot in slots}
    able = {slot.minor for slot in slots if not isinstance(allocate([slot], want._replace(instances=1)), NoCapacity)}
    assert all(points[a] > points[b] or (points[a] == points[b] and a < b) for a in taken for b in able - taken)


def idle(total: dict[str, int] = WHOLE) -> tuple[Slot, ...]:
    return (Slot(0, GPU.vector(total), GPU.zero),)


def shares(*percents: int) -> tuple[Slot, ...]:
    held = [{name: p * amount // 100 for name, amount in WHOLE.items()} for p in percents]
    return tuple(Slot(minor, GPU.vector(WHOLE), GPU.vector(used)) for minor, used in enumerate(held))


def minors(answer: tuple[Grant, ...] | NoCapacity) -> list[int]:
    assert not isinstance(answer, NoCapacity)
    return [grant.minor for grant in answer]


def ask(**request: int) -> Want:
    want = gpu_want({f"koordinator.sh/{name.replace('_', '-')}": amount for name, amount in request.items()})
    assert want is not None
    return want


def test_packing_takes_the_fullest_and_spreading_the_emptiest() -> None:
    slots, want = shares(0, 30, 60, 80), ask(gpu_core=30, gpu_memory_ratio=30)
    assert minors(allocate(slots, want, scoring=scoring_of(GPU, MOST_ALLOCATED))) == [2]
    assert minors(allocate(slots, want, scoring=scoring_of(GPU, LEAST_ALLOCATED))) == [0]


def test_preferred_minors_go_first_and_required_ones_alone() -> None:
    slots, want = shares(0, 0, 0, 0), ask(gpu_core=200, gpu_memory_ratio=200)
    assert minors(allocate(slots, want, preferred={3})) == [0, 3]
    assert minors(allocate(slots, want, required={1, 3})) == [1, 3]
    assert allocate(slots, want, required={1}) == NoCapacity("Insufficient gpu devices")


def test_percent_and_bytes_share_one_device_without_exceeding_either() -> None:
    slots = shares(0)
    by_bytes = allocate(slots, ask(gpu_memory=9 * GI))
    assert not isinstance(by_bytes, NoCapacity)
    assert by_bytes[0].amounts[RATIO] == 56
    slots = charge(slots, by_bytes)
    # 44 percent look free, but 44 percent of 16Gi are more than the 7Gi that are left.
    assert isinstance(allocate(slots, ask(gpu_memory_ratio=44)), NoCapacity)
    assert minors(allocate(slots, ask(gpu_memory_ratio=43))) == [0]


@pytest.mark.parametrize(
    ("total", "request_", "fits"),
    [
        ({names.GPU_MEMORY: 64 * GI}, {"gpu_memory": 32 * GI}, True),
        ({names.GPU_MEMORY: 64 * GI}, {"gpu_memory_ratio": 50}, False),
        ({names.GPU_MEMORY_RATIO: 100}, {"gpu_memory_ratio": 50}, True),
        ({names.GPU_MEMORY_RATIO: 100}, {"gpu_memory": 1}, False),
        ({names.GPU_MEMORY_RATIO: 100, names.NPU_CORE: 8}, {"gpu_core": 10, "gpu_memory_ratio": 10}, False),
    ],
)
def test_what_a_device_does_not_report_it_does_not_have(
    total: dict[str, int], request_: dict[str, int], fits: bool
) -> None:
    assert isinstance(allocate(idle(total), ask(**request_)), NoCapacity) is not fits


def test_two_hundred_percent_of_one_device_never_fit() -> None:
    assert isinstance(allocate(shares(0, 0), ask(gpu_core=200, gpu_memory=GI)), NoCapacity)


def test_a_node_without_such_devices_is_hopeless_a_full_one_is_not() -> None:
    want = ask(gpu_core=100, gpu_memory_ratio=100)
    assert allocate((), want) == NoCapacity("Insufficient gpu devices", unresolvable=True)
    assert allocate(shares(1), want) == NoCapacity("Insufficient gpu devices")


def test_a_vanished_device_keeps_its_users_and_comes_back_with_them() -> None:
    grant = Grant(0, GPU.vector(WHOLE))
    gone = charge((), [grant])
    assert gone == (Slot(0, GPU.zero, GPU.vector(WHOLE)),)
    assert isinstance(allocate(gone, ask(gpu_memory_ratio=1)), NoCapacity)
    back = charge(idle(), [grant])
    assert isinstance(allocate(back, ask(gpu_memory_ratio=1)), NoCapacity)
    assert minors(allocate(release(back, [grant]), ask(gpu_memory_ratio=1))) == [0]


def test_an_overcommitted_device_frees_only_what_lies_above() -> None:
    twice = [Grant(0, GPU.vector(WHOLE)), Grant(0, GPU.vector(WHOLE))]
    full = release(charge(idle(), twice), twice[:1])
    assert full[0].free == GPU.zero


def test_absurd_counts_are_refused_not_tried() -> None:
    want = gpu_want({names.GPU_SHARED: 2**53, names.GPU_MEMORY_RATIO: 2**53})
    assert want is not None
    assert want.instances == 1024
    assert isinstance(allocate(shares(0), want), NoCapacity)
