"""Resource fit of one pod on one node."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.kube import Pod, PodSpec
from berth.resources.amounts import Amounts, add, parse_amounts
from berth.resources.pod_request import request_of
from berth.rules.node_fit import is_extended_resource, node_fit
from berth.testing.vectors import cases


def read(amounts: Any) -> Amounts:
    return parse_amounts(amounts, "amounts")[0]


def containers_spec(pod: dict[str, Any]) -> PodSpec:
    """The vectors write a container's requests without `resources`."""
    containers = [{"resources": {"requests": each.get("requests")}} for each in pod["containers"]]
    return msgspec.convert({"containers": containers, "overhead": pod.get("overhead")}, PodSpec)


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/node_fit"))
def test_vector(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    fit = node_fit(
        request_of(containers_spec(given["pod"]))[0],
        allocatable=read(given["allocatable"]),
        requested=read(given["requested"]),
        pod_count=given["podCount"],
    )
    assert list(fit.reasons) == expect["reasons"]
    assert fit.unresolvable is expect["unresolvable"]


@pytest.mark.parametrize("case", cases("kube-scheduler/fit_filter"))
def test_kube_scheduler_vector(case: dict[str, Any]) -> None:
    given = case["given"]
    request, problems = request_of(msgspec.convert(given["pod"], Pod).spec)
    assert not problems
    args = given.get("args", {})
    for node in given["nodes"]:
        name = node["metadata"]["name"]
        there = [pod for pod in given["pods"] if pod["spec"]["nodeName"] == name]
        requested: Amounts = {}
        for pod in there:
            requested = add(requested, request_of(msgspec.convert(pod, Pod).spec)[0])
        fit = node_fit(
            request,
            allocatable=read(node["status"]["allocatable"]),
            requested=requested,
            pod_count=len(there),
            ignored=args.get("ignoredResources", ()),
        )
        code = "Success" if fit.fits else "UnschedulableAndUnresolvable" if fit.unresolvable else "Unschedulable"
        expect = case["expect"]["nodes"][name]
        assert code == expect["code"]
        assert list(fit.reasons) == expect.get("reasons", [])


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("cpu", False),
        ("example.com/gpu", True),
        ("kubernetes.io/batch-cpu", False),
        ("requests.example.com/gpu", False),
        ("hugepages-2Mi", False),
    ],
)
def test_extended_resources(name: str, extended: bool) -> None:
    assert is_extended_resource(name) is extended


def test_native_resources_cannot_be_ignored() -> None:
    node = {"allocatable": {"pods": 9}, "requested": {}, "pod_count": 0}
    assert node_fit({"cpu": 1}, **node, ignored=["cpu"]).reasons == ("Insufficient cpu",)  # type: ignore[arg-type]
    assert node_fit({"a.com/x": 1}, **node, ignored=["a.com/x"]).fits  # type: ignore[arg-type]


vectors = st.dictionaries(st.sampled_from(["cpu", "memory", "a.com/x", "b.com/y"]), st.integers(0, 5))


@given(vectors, vectors, vectors)
def test_fits_exactly_when_the_sum_stays_within(request: Amounts, allocatable: Amounts, requested: Amounts) -> None:
    fit = node_fit(request, allocatable={**allocatable, "pods": 1}, requested=requested, pod_count=0)
    asked = {name: amount for name, amount in request.items() if amount}
    assert fit.fits == all(
        requested.get(name, 0) + amount <= allocatable.get(name, 0) for name, amount in asked.items()
    )
    assert fit.unresolvable == any(amount > allocatable.get(name, 0) for name, amount in asked.items())
