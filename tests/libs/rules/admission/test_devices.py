"""Device requests of containers beyond the reference cases."""

from __future__ import annotations

import pytest

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.admission.devices import mutate, validate

KEPT_WHOLE = frozenset({names.NPU_CORE})


def admitted(requests: dict[str, str]) -> dict[str, str]:
    done = mutate(requests, None, KEPT_WHOLE)
    assert not isinstance(done, Problem)
    return done.requests


def test_admission() -> None:
    full_npu = {names.NPU_CORE: "8", names.GPU_MEMORY_RATIO: "100"}
    assert admitted(full_npu) == full_npu
    assert admitted({"cpu": "1"}) == {"cpu": "1"}
    assert admitted({"koordinator.sh/gpu-shared": "2", names.GPU_MEMORY: "8Gi"}) == {
        names.GPU_SHARED: "2",
        names.GPU_MEMORY: "8Gi",
    }
    assert admitted({names.GPU_MEMORY_RATIO: "200"})[names.GPU_SHARED] == "2"
    assert admitted({names.GPU_MEMORY_RATIO: "150"})[names.GPU_SHARED] == "1"
    assert names.GPU_SHARED not in admitted({names.KOORD_GPU: "0"})


def test_limits_follow_and_may_be_missing() -> None:
    assert mutate(None, None) == ({}, {})
    done = mutate({names.KOORD_GPU: "50"}, {"cpu": "2", names.KOORD_GPU: "50"})
    assert not isinstance(done, Problem)
    assert done.limits == {"cpu": "2", names.GPU_CORE: "50", names.GPU_MEMORY_RATIO: "50", names.GPU_SHARED: "1"}


@pytest.mark.parametrize(
    "requests",
    [{names.KOORD_GPU: "half"}, {names.GPU_CORE: "-1"}, {"koordinator.sh/gpu-shared": "2", names.GPU_SHARED: "3"}],
)
def test_bad_requests_are_named(requests: dict[str, str]) -> None:
    problem = mutate(requests, {})
    assert isinstance(problem, Problem)
    assert problem.field.startswith("resources.requests[")


@pytest.mark.parametrize(
    ("requests", "field"),
    [
        ({names.KOORD_GPU: "150"}, names.KOORD_GPU),
        ({names.GPU_SHARED: "0", names.GPU_MEMORY: "1"}, names.GPU_SHARED),
        ({names.GPU_SHARED: "1"}, names.GPU_SHARED),
        ({names.GPU_SHARED: "1", names.GPU_MEMORY_RATIO: "200"}, names.GPU_MEMORY_RATIO),
        ({names.GPU_SHARED: "2", names.GPU_CORE: "51", names.GPU_MEMORY: "1"}, names.GPU_CORE),
        ({names.GPU_SHARED: "x"}, names.GPU_SHARED),
    ],
)
def test_validation(requests: dict[str, str], field: str) -> None:
    problem = validate(requests)
    assert problem is not None
    assert problem.field == f"resources.requests[{field}]"


def test_validation_leaves_npus_to_their_templates() -> None:
    assert validate({names.GPU_SHARED: "1", names.NPU_CORE: "2"}) is None
    assert validate(None) is None
