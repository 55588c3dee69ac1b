"""Resource amplification, against the reference cases and its own laws."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_AMPLIFICATION_RATIO, ANNOTATION_CPU_NORMALIZATION_RATIO
from berth.rules.amplification import (
    RESOURCES_MAX,
    amplify,
    needs_write,
    ratios_for,
    ratios_text,
    read_ratios,
)
from berth.testing.vectors import cases


def annotated(text: str | None, name: str = ANNOTATION_AMPLIFICATION_RATIO) -> dict[str, str]:
    return {} if text is None else {name: text}


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/amplification_annotation"))
def test_annotation(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    annotations = annotated(given["annotation"])
    if given["op"] == "get":
        found = read_ratios(annotations)
        assert isinstance(found, Problem) == expect["error"]
        assert (None if isinstance(found, Problem) else found.get(given["resource"])) == expect["ratio"]
        return
    shown = read_ratios(annotations)
    assert isinstance(shown, Problem) == expect["error"]
    if not isinstance(shown, Problem):
        text = ratios_text({**shown, given["resource"]: given["ratio"]})
        assert text == expect["annotation"]
        assert (text != given["annotation"]) == expect["changed"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/amplification_ratio"))
def test_ratio(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    annotations = annotated(given["normalizationRatio"], ANNOTATION_CPU_NORMALIZATION_RATIO)
    config = given["config"]
    found = ratios_for(config["ratio"], annotations, is_enabled=config["enable"])
    if expect.get("error"):
        assert isinstance(found, Problem)
    else:
        assert found == (expect["ratios"] or {})


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[1]", ANNOTATION_AMPLIFICATION_RATIO),
        ('{"cpu": "1.5"}', ANNOTATION_AMPLIFICATION_RATIO),
        ('{"cpu": 1e999}', ANNOTATION_AMPLIFICATION_RATIO),
        ("{" * 70_000, ANNOTATION_AMPLIFICATION_RATIO),
        ("{" + ",".join(f'"r{at}": 2' for at in range(RESOURCES_MAX + 1)) + "}", ANNOTATION_AMPLIFICATION_RATIO),
    ],
)
def test_what_cannot_be_read_names_the_annotation(text: str, field: str) -> None:
    found = read_ratios(annotated(text))
    assert isinstance(found, Problem)
    assert field in found.field
    assert needs_write(text, "{}"), "what cannot be read gives way"


def test_what_is_too_small_names_the_resource() -> None:
    found = ratios_for({"memory": 0.99}, {}, is_enabled=True)
    assert isinstance(found, Problem)
    assert found.field == "resourceAmplificationRatio[memory]"


def test_a_normalisation_of_nothing_or_less_is_named() -> None:
    for text in ("0", "-1.5"):
        found = ratios_for({}, annotated(text, ANNOTATION_CPU_NORMALIZATION_RATIO), is_enabled=True)
        assert isinstance(found, Problem)
        assert ANNOTATION_CPU_NORMALIZATION_RATIO in found.field


@pytest.mark.parametrize(
    ("old", "new", "writes"),
    [
        (None, None, False),
        (None, '{"cpu":1.50}', True),
        ('{"cpu":1.50}', None, True),
        ('{ "memory": 2, "cpu": 1.5 }', '{"cpu":1.50,"memory":2.00}', False),
        ('{"cpu":1.51}', '{"cpu":1.50}', True),
        ('{"cpu":1.50,"memory":2.00}', '{"cpu":1.50}', True),
        ("?", '{"cpu":1.50}', True),
        ("?", None, True),
    ],
)
def test_it_is_written_when_it_has_other_ratios(old: str | None, new: str | None, writes: bool) -> None:
    assert needs_write(old, new) == writes


@given(st.dictionaries(st.sampled_from(["cpu", "memory", "storage"]), st.integers(100, 1000).map(lambda n: n / 100)))
def test_what_is_written_is_read(ratios: dict[str, float]) -> None:
    assert read_ratios(annotated(ratios_text(ratios))) == ratios


@given(st.integers(0, 2**50), st.floats(0, 10))
def test_amplified_is_never_less(amount: int, ratio: float) -> None:
    assert amplify(amount, ratio) >= amount
    assert amplify(amount, None) == amount
    if ratio > 1:
        assert amplify(amount, ratio) == math.ceil(amount * ratio)


def test_the_documented_amount() -> None:
    assert amplify(8_000, 1.5) == 12_000
    assert amplify(3_333, 1.33) == 4_433
