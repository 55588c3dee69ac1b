"""Which devices a node's annotation keeps out, and what of it is refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.names import ANNOTATION_DEVICE_CORDON
from berth.rules.device_cordon import ENTRIES_MAX, LENGTH_MAX, NOTHING, DeviceCordon, read_device_cordon

FIELD = f"metadata.annotations[{ANNOTATION_DEVICE_CORDON}]"


def read(text: str) -> tuple[DeviceCordon, list[str]]:
    cordon, problems = read_device_cordon({ANNOTATION_DEVICE_CORDON: text})
    return cordon, [problem.field for problem in problems]


@pytest.mark.parametrize(
    "text", ["gpu/3,rdma/0,GPU-8d2f", " gpu/3 , rdma/0 ,GPU-8d2f ", '["gpu/3", "rdma/0", "GPU-8d2f"]']
)
def test_both_forms_say_the_same(text: str) -> None:
    cordon, problems = read(text)
    assert problems == []
    assert cordon == DeviceCordon(frozenset({("gpu", 3), ("rdma", 0)}), frozenset({"GPU-8d2f"}))
    assert cordon.covers("gpu", 3, "")
    assert cordon.covers("gpu", 7, "GPU-8d2f")
    assert not cordon.covers("rdma", 3, "")
    assert not cordon.covers("gpu", 7, "")


@pytest.mark.parametrize("annotations", [{}, {ANNOTATION_DEVICE_CORDON: ""}, {ANNOTATION_DEVICE_CORDON: "[]"}])
def test_nothing_is_cordoned_unless_something_is_listed(annotations: dict[str, str]) -> None:
    assert read_device_cordon(annotations) == (NOTHING, ())


def test_what_is_no_entry_is_named_and_the_others_count() -> None:
    cordon, problems = read("gpu/3,gpu/-1,gpu/x,mlu/0,gpu/99999999999,,rdma/1")
    assert cordon.places == {("gpu", 3), ("rdma", 1)}
    assert problems == [f"{FIELD}[{position}]" for position in (1, 2, 3, 4, 5)]


@pytest.mark.parametrize("text", ["[", '["gpu/3"', "[1]", '[["gpu/3"]]', "x" * (LENGTH_MAX + 1)])
def test_a_text_that_is_no_list_is_refused_by_name(text: str) -> None:
    assert read(text) == (NOTHING, [FIELD])


def test_of_a_list_without_end_the_beginning_counts() -> None:
    cordon, problems = read(",".join(f"gpu/{minor}" for minor in range(ENTRIES_MAX + 1)))
    assert len(cordon.places) == ENTRIES_MAX
    assert problems == [FIELD]


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    read(text)
