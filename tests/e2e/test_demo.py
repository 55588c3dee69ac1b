"""`berth demo`: everything it promises to show happens, and nothing is left behind."""

from __future__ import annotations

from typing import Any

import pytest

from berth.cli.demo.acts import ACTS

pytestmark = pytest.mark.e2e


def test_the_demo_shows_all_that_it_promises_in_plain_lines(berth: Any) -> None:
    ran = berth("demo", "--nodes", "12", "--seed", "7")
    assert ran.code == 0, ran.out + ran.err
    assert "\x1b" not in ran.out
    assert max(map(len, ran.out.splitlines())) <= 100
    for act in ACTS:
        assert f"ok       {act.promise}" in ran.out
    assert "BROKEN" not in ran.out
    assert ran.out.count("not judged: no node reports devices in use") == 2, "no koordlet runs here"
    assert "MISSING" not in ran.out
    told = " ".join(ran.out.split())
    for part in (
        "repair",
        "quota ml: use of",
        "resources.requests[koordinator.sh/gpu-core]",
        "unsupported: ",
        "didn't match pod anti-affinity rules",
        "not found",
        "nominated to spot, waiting for default/report-",
        "waiting for default/sweep-0, default/sweep-1 to leave",
        "to itself, in NUMA node 0",
        "beside function 0000:",
        "Insufficient gpu devices",
    ):
        assert part in told
    assert berth.left_behind() == []


@pytest.mark.parametrize("seed", ["1", "2"])
def test_other_seeds_and_the_smallest_cluster_work_too(berth: Any, seed: str) -> None:
    ran = berth("demo", "--nodes", "4", "--seed", seed)
    assert ran.code == 0, ran.out + ran.err
