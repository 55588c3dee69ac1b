"""How many nodes kube-scheduler looks for."""

from typing import Any

import pytest

from berth.rules.node_sampling import nodes_to_find
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("kube-scheduler/nodes_to_find"))
def test_vector(case: dict[str, Any]) -> None:
    given = case["given"]
    assert nodes_to_find(given["nodes"], given["percentage"]) == case["expect"]["toFind"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/node_sampling"))
def test_sampling_vector(case: dict[str, Any]) -> None:
    given = case["given"]
    assert nodes_to_find(given["nodes"], given["percentage"]) == case["expect"]["feasibleToFind"]
