"""The scheduling request of a pod, against the vectors and against its own laws."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.kube import PodSpec, PodStatus
from berth.resources.amounts import add, parse_amounts
from berth.resources.pod_request import (
    CONTAINERS_MAX,
    ContainerAmounts,
    PodAmounts,
    limits_of,
    pod_requests,
    request_of,
    scored_of,
)
from berth.testing.vectors import cases


def read(amounts: Any) -> dict[str, int]:
    values, problems = parse_amounts(amounts, "amounts")
    assert not problems
    return values


def container(given: dict[str, Any], name: str) -> dict[str, Any]:
    resources = {field: given[field] for field in ("requests", "limits") if field in given}
    return {"name": name, "resources": resources, "restartPolicy": given.get("restartPolicy", "")}


def told(given: dict[str, Any], name: str) -> dict[str, Any]:
    """What the kubelet reports of a container."""
    status: dict[str, Any] = {"name": name}
    if "allocated" in given:
        status["allocatedResources"] = given["allocated"]
    if "actuated" in given:
        status["resources"] = {"requests": given["actuated"]}
    return status


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/fit_plus_pod_request"))
def test_scored_vector(case: dict[str, Any]) -> None:
    pod = case["given"]["pod"]
    first = enumerate(pod.get("initContainers", []))
    specification = msgspec.convert(
        {
            "containers": [container(each, f"c{place}") for place, each in enumerate(pod["containers"])],
            "initContainers": [container(each, f"i{place}") for place, each in first],
        },
        PodSpec,
    )
    requests, problems = request_of(specification)
    assert problems == []
    counted = {**requests, **scored_of(specification, requests)}
    assert counted[case["given"]["resource"]] == case["expect"]["request"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/pod_request"))
def test_vector(case: dict[str, Any]) -> None:
    given, expect, pod = case["given"], case["expect"], case["given"]["pod"]
    named = [(f"c{place}", each) for place, each in enumerate(pod["containers"])]
    first = [(f"i{place}", each) for place, each in enumerate(pod.get("initContainers", []))]
    specification = msgspec.convert(
        {
            "containers": [container(each, name) for name, each in named],
            "initContainers": [container(each, name) for name, each in first],
            "resources": pod.get("podLevel"),
            "overhead": pod.get("overhead"),
        },
        PodSpec,
    )
    infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    status = msgspec.convert(
        {
            "containerStatuses": [told(each, name) for name, each in named],
            "initContainerStatuses": [told(each, name) for name, each in first],
            "conditions": [infeasible] if pod.get("resizeInfeasible") else [],
        },
        PodStatus,
    )
    requests, problems = request_of(specification, status=status if given.get("useStatus") else None)
    assert problems == []
    assert requests == read(expect["requests"])
    if "limits" in expect:
        assert limits_of(specification) == (read(expect["limits"]), [])


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


# --- resize -----------------------------------------------------------------------------------------------------------


def of_status(wanted: Any, status: dict[str, Any], *, init: Any = None) -> dict[str, int]:
    raw = {"containers": [{"name": "a", "resources": {"requests": wanted}}, {"name": "b"}], "initContainers": init}
    requests, problems = request_of(spec(raw), status=msgspec.convert(status, PodStatus))
    assert problems == []
    return requests


def reports(name: str = "a", allocated: Any = None, actuated: Any = None) -> dict[str, Any]:
    resources = None if actuated is None else {"requests": actuated}
    return {"name": name, "allocatedResources": allocated, "resources": resources}


@pytest.mark.parametrize(
    ("wanted", "allocated", "actuated", "counted"),
    [
        ("2", "2", "2", 2000),
        ("4", "2", "2", 4000),  # asked for, not granted yet
        ("4", "4", "2", 4000),  # granted, not in force yet
        ("1", "1", "2", 2000),  # smaller, and still in force
        ("1", "2", "2", 2000),
    ],
)
def test_a_resize_counts_with_the_largest(wanted: str, allocated: str, actuated: str, counted: int) -> None:
    status = {"containerStatuses": [reports("a", {"cpu": allocated}, {"cpu": actuated}), reports("b")]}
    assert of_status({"cpu": wanted}, status) == {"cpu": counted}


def test_each_resource_counts_with_its_own_largest() -> None:
    status = {"containerStatuses": [reports("a", {"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "3Gi"})]}
    assert of_status({"cpu": "4", "memory": "2Gi"}, status) == {"cpu": 4000, "memory": 3 * 1024**3}


@pytest.mark.parametrize(
    ("condition", "counted"),
    [
        ({"type": "PodResizePending", "status": "True", "reason": "Infeasible"}, 2000),
        ({"type": "PodResizePending", "status": "True", "reason": "Deferred"}, 8000),
        ({"type": "PodResizeInProgress", "status": "True"}, 8000),
    ],
)
def test_a_size_that_is_refused_for_good_does_not_count(condition: dict[str, str], counted: int) -> None:
    status = {"conditions": [condition], "containerStatuses": [reports("a", {"cpu": "2"}, {"cpu": "2"})]}
    assert of_status({"cpu": "8"}, status) == {"cpu": counted}


def test_a_sidecar_may_be_resized_and_another_init_container_not() -> None:
    init = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "i", "resources": {"requests": {"cpu": "1"}}},
    ]
    status = {"initContainerStatuses": [reports("s", {"cpu": "3"}), reports("i", {"cpu": "100"})]}
    assert of_status({"cpu": "2"}, status, init=init) == {"cpu": 5000}


def test_a_container_that_has_left_the_status_counts_as_it_is_written() -> None:
    assert of_status({"cpu": "2"}, {"containerStatuses": [reports("x", {"cpu": "9"})]}) == {"cpu": 2000}


def test_what_the_kubelet_reports_and_cannot_be_read_is_named() -> None:
    status = {"containerStatuses": [reports("a", {"cpu": "lots"}, {"cpu": "-1"})]}
    raw = spec({"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]})
    requests, problems = request_of(raw, status=msgspec.convert(status, PodStatus))
    assert requests == {"cpu": 2000}
    assert [problem[0] for problem in problems] == [
        "status.containerStatuses[a].allocatedResources[cpu]",
        "status.containerStatuses[a].resources.requests[cpu]",
    ]


quantities = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 9).map(str), max_size=2)


@given(st.lists(st.tuples(quantities, st.none() | quantities, st.none() | quantities), max_size=3))
def test_a_resize_never_counts_less_than_the_specification(drawn: list[tuple[Any, Any, Any]]) -> None:
    raw = {"containers": [{"name": str(i), "resources": {"requests": each[0]}} for i, each in enumerate(drawn)]}
    status = {"containerStatuses": [reports(str(i), *each[1:]) for i, each in enumerate(drawn)]}
    counted, _ = request_of(spec(raw), status=msgspec.convert(status, PodStatus))
    for name in ("cpu", "memory"):
        largest = sum(max(read(part).get(name, 0) for part in each if part is not None) for each in drawn)
        assert counted.get(name, 0) == largest


def of(cpu: str | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"resources": {"requests": requests}} | more


@pytest.mark.parametrize(
    ("raw", "scored"),
    [
        ({"containers": [{}]}, {"cpu": 100, "memory": 200 << 20}),
        ({"containers": [of("0", "0")]}, {}),
        ({"containers": [of("1"), of(memory="1Gi")]}, {"cpu": 1100, "memory": 1224 << 20}),
        ({"containers": [of("1", "1Gi")], "overhead": {"cpu": "1"}}, {}),
        ({"containers": [{}], "overhead": {"cpu": "1"}}, {"cpu": 1100, "memory": 200 << 20}),
        ({"containers": [of("1", "1Gi")], "initContainers": [of("2")]}, {}),
        ({"containers": [of("50m", "1Gi")], "initContainers": [{}]}, {"cpu": 100}),
        (
            {"containers": [of("1", "1Gi")], "initContainers": [{"restartPolicy": "Always"}]},
            {"cpu": 1100, "memory": 1224 << 20},
        ),
        ({"containers": [of("1", "1Gi")], "resources": {"requests": {"cpu": "4"}}}, {"cpu": 1000}),
        ({"containers": [{}], "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}}}, {}),
        ({"containers": [], "resources": {"requests": {"cpu": "1"}}}, {"cpu": 0}),
        ({"containers": [of("lots", "1Gi"), {}]}, {"cpu": 200, "memory": 1224 << 20}),
    ],
)
def test_what_counts_in_scores(raw: dict[str, Any], scored: dict[str, int]) -> None:
    """Given only where it is not the request."""
    specification = spec(raw)
    assert scored_of(specification, request_of(specification)[0]) == scored


def test_what_counts_in_scores_of_a_pod_that_is_being_resized() -> None:
    specification = spec({"containers": [of("1", name="c")]})
    status = msgspec.convert({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"}}]}, PodStatus)
    requests, _ = request_of(specification, status=status)
    assert requests == {"cpu": 2000}
    assert scored_of(specification, requests, status=status) == {"memory": 200 << 20}


def test_requests_of_the_pod_level_count_in_scores_once_it_is_bound() -> None:
    specification = msgspec.convert(
        {"containers": [{"name": "a"}, {"name": "b"}], "resources": {"requests": {"cpu": "150m"}}}, PodSpec
    )
    requests = request_of(specification)[0]
    assert scored_of(specification, requests) == {"cpu": 200, "memory": 400 << 20}
    assert scored_of(specification, requests, status=PodStatus()) == {"memory": 400 << 20}
