"""CPU normalisation, against the reference cases, its own laws and what users may write."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_CPU_NORMALIZATION_RATIO, LABEL_CPU_NORMALIZATION_ENABLED
from berth.rules.cpu_normalization import (
    CpuInfo,
    Strategy,
    annotation_for,
    differ,
    enabled_by,
    needs_write,
    normalised_quota,
    ratio_of,
    ratio_text,
    select_ratio,
)
from berth.testing.vectors import cases

INFO = '{"cpuModel": "A", "hyperThreadEnabled": true, "turboEnabled": true}'


def annotated(text: str | None) -> dict[str, str]:
    return {} if text is None else {ANNOTATION_CPU_NORMALIZATION_RATIO: text}


def labelled(text: str | None) -> dict[str, str]:
    return {} if text is None else {LABEL_CPU_NORMALIZATION_ENABLED: text}


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/cpu_normalization_ratio"))
def test_ratio(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    info = None if given["cpu"] is None else msgspec.convert(given["cpu"], CpuInfo)
    found = select_ratio(info, msgspec.convert(given["strategy"], Strategy))
    assert isinstance(found, Problem) if expect.get("error") else found == expect["ratio"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/cpu_normalization_text"))
def test_text(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    if given["op"] == "different":
        assert differ(given["old"], given["new"]) == expect["different"]
    elif given["op"] == "needSync":
        assert needs_write(given["old"], given["new"]) == expect["sync"]
    elif given["op"] == "set":
        text = ratio_text(given["ratio"])
        assert (text != given["annotation"], text) == (expect["changed"], expect["annotation"])
    elif given["op"] == "get":
        ratio = ratio_of(annotated(given["annotation"]))
        assert isinstance(ratio, Problem) if expect["error"] else ratio == expect["ratio"]
    else:
        assert given["op"] == "enabled"
        enabled = enabled_by(labelled(given["label"]))
        assert isinstance(enabled, Problem) if expect["error"] else enabled == expect["enabled"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/cpu_normalization_quota"))
def test_quota(case: dict[str, Any]) -> None:
    given = case["given"]
    found = normalised_quota(given["cfsQuotaUs"], given["ratio"], given["qos"], has_cpuset=bool(given["cpuset"]))
    assert (given["cfsQuotaUs"] if found is None else found) == case["expect"]["cfsQuotaUs"]


@pytest.mark.parametrize("case", cases("node-qos/cpu-normalization"))
def test_quota_on_the_node(case: dict[str, Any]) -> None:
    given = case["given"]
    status = msgspec.json.decode(given.get("resource_status") or "{}")
    ratio = given["ratio"] if given["enabled"] else None
    quota = -1 if given["cfs_quota"] is None else given["cfs_quota"]
    found = normalised_quota(quota, ratio, given["qos"], has_cpuset=bool(status.get("cpuset")))
    assert found == case["expect"]["cfs_quota"]


@pytest.mark.parametrize(
    ("strategy", "labels", "info", "field"),
    [
        (Strategy(enable=True), {}, None, "cpu-basic-info"),
        (Strategy(enable=True), {}, "[}", "cpu-basic-info"),
        (Strategy(enable=True), {}, '{"cpuModel": 1}', "cpu-basic-info"),
        (Strategy(enable=True), {}, INFO, "ratioModel"),
        (Strategy(enable=True, default_ratio=0.99), {}, INFO, "ratioModel"),
        (Strategy(enable=True, default_ratio=5.01), {}, INFO, "ratioModel"),
        (Strategy(enable=True, default_ratio=math.nan), {}, INFO, "ratioModel"),
        (Strategy(default_ratio=2), labelled("yes"), INFO, "cpu-normalization-enabled"),
    ],
)
def test_what_cannot_be_used_is_named(strategy: Strategy, labels: dict[str, str], info: str | None, field: str) -> None:
    found = annotation_for(strategy, labels, info)
    assert isinstance(found, Problem)
    assert field in found.field


def test_the_label_switches_off_without_a_look_at_the_cpus() -> None:
    assert annotation_for(Strategy(enable=True), labelled("false"), None) == "1.00"


@pytest.mark.parametrize("text", ["", "nan", "inf", "1_0", " 1", "0x1p3", "1e999", "1" * 100])
def test_what_is_no_number(text: str) -> None:
    assert isinstance(ratio_of(annotated(text)), Problem)
    assert needs_write(text, "1.10")
    assert not needs_write("1.10", text)


@given(st.text(max_size=80))
def test_any_text_is_a_number_or_a_problem(text: str) -> None:
    found = ratio_of(annotated(text))
    assert isinstance(found, Problem) or (found is not None and math.isfinite(found))


@given(st.floats(1, 5))
def test_what_is_written_needs_no_second_write(ratio: float) -> None:
    text = ratio_text(ratio)
    assert not needs_write(text, text)


@given(st.integers(1, 10**9), st.floats(1, 5))
def test_a_quota_becomes_smaller_and_never_nothing(quota: int, ratio: float) -> None:
    found = normalised_quota(quota, ratio, "LS", has_cpuset=False)
    assert found is not None
    assert 1 <= found <= quota
    assert found * ratio >= quota * (1 - 1e-9)
