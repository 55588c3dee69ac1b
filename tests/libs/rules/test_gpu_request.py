"""Requests for GPUs, NPUs and other devices."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.device_request import device_requests
from berth.rules.gpu_request import AMOUNT_MAX, FAMILY, GPU_SHARED_ALIAS, CardRequest, normalise_gpu, per_card
from berth.testing.vectors import cases


def read(amounts: Any) -> Amounts:
    return parse_amounts(amounts, "amounts")[0]


@pytest.mark.parametrize("case", cases("devices/request_normalisation"))
def test_normalisation_vector(case: dict[str, Any]) -> None:
    expect, answer = case["expect"], device_requests(read(case["given"]["requests"]))
    if expect.get("error"):
        assert isinstance(answer, Problem)
        return
    assert isinstance(answer, dict)
    if "normalised" in expect:
        assert list(answer.values()) == [read(expect["normalised"])]
    else:
        assert answer == {family: read(amounts) for family, amounts in expect["normalisedByType"].items()}


@pytest.mark.parametrize("case", cases("devices/request_validation"))
def test_validation_vector(case: dict[str, Any]) -> None:
    answer = device_requests(read(case["given"]["requests"]))
    assert (isinstance(answer, dict) and bool(answer)) is case["expect"]["valid"]


@pytest.mark.parametrize(
    "case", cases("devices/instances_per_request", lambda case: case["given"]["deviceType"] == "gpu")
)
def test_per_card_vector(case: dict[str, Any]) -> None:
    expect = case["expect"]
    assert per_card(read(case["given"]["requests"])) == CardRequest(
        expect["instances"], read(expect["perInstance"]), expect["shared"]
    )


@pytest.mark.parametrize("vendor", [names.NVIDIA_GPU, names.AMD_GPU, names.DCU_GPU])
def test_whole_cards_of_every_vendor(vendor: str) -> None:
    normalised = normalise_gpu({vendor: 3, "cpu": 5})
    assert normalised == {names.GPU_CORE: 300, names.GPU_MEMORY_RATIO: 300}
    assert per_card(normalised) == CardRequest(3, {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}, False)


@pytest.mark.parametrize(
    ("requests", "field"),
    [
        ({names.GPU_CORE: 100}, "resources.requests"),
        ({names.NVIDIA_GPU: 1, names.AMD_GPU: 1}, "resources.requests"),
        ({names.NVIDIA_GPU: 1, names.GPU_SHARED: 1}, "resources.requests"),
        ({names.NVIDIA_GPU: -1}, "resources.requests[nvidia.com/gpu]"),
        ({names.NVIDIA_GPU: AMOUNT_MAX + 1}, "resources.requests[nvidia.com/gpu]"),
        ({names.KOORD_GPU: 101}, "resources.requests[koordinator.sh/gpu]"),
        ({names.GPU_MEMORY_RATIO: 250}, "resources.requests[koordinator.sh/gpu-memory-ratio]"),
        ({names.GPU_SHARED: 2, names.GPU_MEMORY_RATIO: 101}, "resources.requests[koordinator.sh/gpu-memory-ratio]"),
        (
            {names.GPU_SHARED: 2, names.GPU_CORE: 300, names.GPU_MEMORY: 1},
            "resources.requests[koordinator.sh/gpu-core]",
        ),
        (
            {GPU_SHARED_ALIAS: 1, names.GPU_SHARED: 2, names.GPU_MEMORY: 1},
            "resources.requests[koordinator.sh/gpu.shared]",
        ),
    ],
)
def test_a_refused_request_names_its_field(requests: dict[str, int], field: str) -> None:
    problem = normalise_gpu(requests)
    assert isinstance(problem, Problem)
    assert problem.field == field


@pytest.mark.parametrize("name", [names.RDMA, names.FPGA])
@pytest.mark.parametrize("amount", [-1, 101, 201, AMOUNT_MAX + 100])
def test_other_devices_follow_the_percent_rule(name: str, amount: int) -> None:
    problem = device_requests({name: amount})
    assert isinstance(problem, Problem)
    assert problem.field == f"resources.requests[{name}]"


def test_several_families_at_once() -> None:
    assert device_requests({names.NVIDIA_GPU: 1, names.RDMA: 200, names.FPGA: 0}) == {
        "gpu": {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100},
        "rdma": {names.RDMA: 200},
    }


def test_the_other_spelling_of_shared() -> None:
    normalised = normalise_gpu({GPU_SHARED_ALIAS: 2, names.GPU_MEMORY: 10})
    assert normalised == {names.GPU_SHARED: 2, names.GPU_MEMORY: 10}
    assert per_card(normalised) == CardRequest(2, {names.GPU_MEMORY: 5}, True)


@pytest.mark.parametrize(
    ("requests", "cards"),
    [
        ({names.KOORD_GPU: 50}, CardRequest(1, {names.GPU_CORE: 50, names.GPU_MEMORY_RATIO: 50}, True)),
        ({names.GPU_CORE: 50, names.GPU_MEMORY: 32}, CardRequest(1, {names.GPU_CORE: 50, names.GPU_MEMORY: 32}, True)),
        (
            {names.NPU_CORE: 16, names.GPU_MEMORY_RATIO: 200},
            CardRequest(2, {names.NPU_CORE: 8, names.GPU_MEMORY_RATIO: 100}, False),
        ),
    ],
)
def test_worked_examples(requests: dict[str, int], cards: CardRequest) -> None:
    normalised = normalise_gpu(requests)
    assert isinstance(normalised, dict)
    assert per_card(normalised) == cards


amounts = st.one_of(st.sampled_from([0, 1, 50, 100, 101, 200, 300]), st.integers(-5, 10**6))


@given(st.dictionaries(st.sampled_from(sorted(FAMILY)), amounts, max_size=5))
def test_what_is_accepted_stays_accepted_and_no_card_gives_more_than_asked(requests: dict[str, int]) -> None:
    normalised = normalise_gpu(requests)
    if isinstance(normalised, Problem):
        assert normalised.field.startswith("resources.requests")
        return
    if not normalised:
        assert not any(requests.values())
        return
    assert normalise_gpu(normalised) == normalised
    cards = per_card(normalised)
    assert cards.count >= 1
    for name, amount in cards.each.items():
        assert 0 <= amount * cards.count <= normalised[name]
    ratio = cards.each.get(names.GPU_MEMORY_RATIO)
    assert ratio is None or ratio <= 100
