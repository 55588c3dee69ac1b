"""The scheduling request of a pod, against the vectors and against its own laws."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.kube import PodSpec
from berth.resources.amounts import add, parse_amounts
from berth.resources.pod_request import (
    CONTAINERS_MAX,
    ContainerAmounts,
    PodAmounts,
    pod_limits,
    pod_requests,
    read_pod,
    request_of,
)

VECTORS = Path(__file__).parents[2] / "vectors"
CASES = json.loads((VECTORS / "numa-cpu-scoring" / "pod_request.json").read_text())["cases"]


def read(amounts: Any) -> dict[str, int]:
    values, problems = parse_amounts(amounts, "amounts")
    assert not problems
    return values


def container(given: dict[str, Any]) -> ContainerAmounts:
    return ContainerAmounts(
        requests=read(given.get("requests")),
        limits=read(given.get("limits")),
        sidecar=given.get("restartPolicy") == "Always",
        allocated=read(given["allocated"]) if "allocated" in given else None,
        actuated=read(given["actuated"]) if "actuated" in given else None,
    )


def pod(given: dict[str, Any]) -> PodAmounts:
    level = given.get("podLevel", {})
    return PodAmounts(
        containers=[container(each) for each in given.get("containers", [])],
        init_containers=[container(each) for each in given.get("initContainers", [])],
        level_requests=read(level.get("requests")),
        level_limits=read(level.get("limits")),
        overhead=read(given.get("overhead")),
        resize_infeasible=given.get("resizeInfeasible", False),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_vector(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    amounts = pod(given["pod"])
    overhead = not given.get("excludeOverhead", False)
    assert pod_requests(amounts, with_overhead=overhead, with_status=given.get("useStatus", False)) == read(
        expect["requests"]
    )
    if "limits" in expect:
        assert pod_limits(amounts, with_overhead=overhead) == read(expect["limits"])


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 10**6), max_size=3)
containers = st.lists(st.builds(ContainerAmounts, requests=amounts, sidecar=st.booleans()), max_size=5)


@given(containers, containers, amounts)
def test_the_request_covers_every_step_of_a_start(
    main: list[ContainerAmounts], init: list[ContainerAmounts], overhead: dict[str, int]
) -> None:
    total = pod_requests(PodAmounts(containers=main, init_containers=init, overhead=overhead))
    steps = []
    running = dict(overhead)
    for each in init:
        steps.append(add(running, each.requests))
        if each.sidecar:
            running = add(running, each.requests)
    for each in main:
        running = add(running, each.requests)
    steps.append(running)
    names = {name for step in steps for name in step}
    assert total == {name: max(step.get(name, 0) for step in steps) for name in names}


def spec(raw: dict[str, Any]) -> PodSpec:
    return msgspec.convert(raw, PodSpec)


def test_a_specification_is_read_whole() -> None:
    requests, problems = request_of(
        spec(
            {
                "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
                "initContainers": [
                    {"restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}},
                    {"resources": {"requests": {"cpu": "2"}}},
                ],
                "resources": {"requests": {"memory": "3Gi", "nvidia.com/gpu": 4}},
                "overhead": {"cpu": "10m"},
            }
        )
    )
    assert problems == []
    assert requests == {"cpu": 2260, "memory": 3 * 1024**3}


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (
            {"containers": [{"resources": {"requests": {"cpu": "-1"}}}]},
            "spec.containers[0].resources.requests[cpu]",
        ),
        (
            {"containers": [{}, {"resources": {"requests": {"memory": "lots"}}}]},
            "spec.containers[1].resources.requests[memory]",
        ),
        ({"containers": [{}], "overhead": {"cpu": "NaN"}}, "spec.overhead[cpu]"),
        ({"containers": [{}], "resources": {"requests": {"cpu": ""}}}, "spec.resources.requests[cpu]"),
        ({"containers": [{}] * (CONTAINERS_MAX + 1)}, "spec.containers"),
    ],
)
def test_what_cannot_be_read_is_named(raw: dict[str, Any], field: str) -> None:
    _, problems = request_of(spec(raw))
    assert [problem[0] for problem in problems] == [field]


def test_absurd_sums_stay_within_what_messages_carry() -> None:
    huge = {"resources": {"requests": {"memory": str(2**63 - 1)}}}
    requests, problems = request_of(spec({"containers": [huge, huge]}))
    assert (requests, problems) == ({"memory": 2**63 - 1}, [])


def test_limits_are_read_only_when_asked_for() -> None:
    raw = {
        "containers": [{"resources": {"limits": {"cpu": "2"}}}],
        "initContainers": [{"resources": {"limits": {"cpu": "1e999"}}}],
        "resources": {"limits": {"memory": "1Gi"}},
    }
    problems: list[tuple[str, str]] = []
    assert pod_limits(read_pod(spec(raw), problems)) == {}
    assert problems == []
    assert pod_limits(read_pod(spec(raw), problems, limits=True)) == {"cpu": 2000, "memory": 1024**3}
    assert [problem[0] for problem in problems] == ["spec.initContainers[0].resources.limits[cpu]"]
