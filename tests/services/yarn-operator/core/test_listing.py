"""What ResourceManagers say, and what of it is of no use."""

import json
from typing import Any

import pytest

from berth.contracts.base import Problem
from berth.yarn_operator.core.listing import NODES_MAX, Listing, is_active, read_listing
from berth.yarn_operator.core.step import Manager
from berth.yarn_operator.core.units import Share

GOOD = {
    "id": "a:1",
    "state": "RUNNING",
    "usedMemoryMB": 100,
    "availMemoryMB": 900,
    "usedVirtualCores": 1,
    "availableVirtualCores": 3,
}


def body(*nodes: Any) -> bytes:
    return json.dumps({"nodes": {"node": nodes}}).encode()


def read(*nodes: Any) -> Listing:
    found = read_listing(body(*nodes))
    assert isinstance(found, Listing)
    return found


def test_what_is_left_and_used_is_what_there_is() -> None:
    assert read(GOOD).managers == {"a:1": Manager("RUNNING", Share(4, 1000), Share(1, 100))}
    over = GOOD | {"availMemoryMB": -40, "availableVirtualCores": -1}
    assert read(over).managers["a:1"].granted == Share(0, 60)


@pytest.mark.parametrize("said", [b"{}", b'{"nodes": null}', b'{"nodes": {}}', b'{"nodes": {"node": null}}'])
def test_a_cluster_without_nodes(said: bytes) -> None:
    assert read_listing(said) == Listing({})


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"usedMemoryMB": -1}, "usedMemoryMB"),
        ({"usedMemoryMB": 1 << 50}, "usedMemoryMB"),
        ({"availMemoryMB": -(1 << 50)}, "availMemoryMB"),
        ({"usedVirtualCores": "3"}, "usedVirtualCores"),
        ({"usedVirtualCores": True}, "usedVirtualCores"),
        ({"availableVirtualCores": None}, "availableVirtualCores"),
        ({"availableVirtualCores": 1e300}, "availableVirtualCores"),
        ({"id": 7}, "node[0]"),
        ({"id": "x" * 301}, "node[0]"),
        ({"state": None}, "node[0]"),
    ],
)
def test_an_entry_that_is_of_no_use_is_named_and_the_others_count(wrong: dict[str, Any], field: str) -> None:
    found = read(GOOD | wrong, GOOD)
    assert set(found.managers) == {"a:1"}
    (problem,) = found.problems
    assert field in problem.field


@pytest.mark.parametrize(
    "said",
    [
        b"<html>login</html>",
        b"",
        b"[1]",
        b'{"nodes": {"node": {}}}',
        b'{"nodes": {"node": [{"id": "a:1", "state": "RUNNING", "usedMemoryMB": NaN}]}}',
        b"[" * 100_000,
        b"\xff\xfe",
        body(*[{}] * (NODES_MAX + 1)),
    ],
)
def test_an_answer_that_is_of_no_use_is_a_problem(said: bytes) -> None:
    assert isinstance(read_listing(said), Problem)
    assert not is_active(said)


def test_one_alone_is_active() -> None:
    assert is_active(b'{"clusterInfo": {"haState": "ACTIVE"}}')
    assert is_active(b'{"clusterInfo": {}}')
    assert not is_active(b'{"clusterInfo": {"haState": "STANDBY"}}')
