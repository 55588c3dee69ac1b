"""JSON in annotations never raises and never costs more than its limit."""

from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.base import Problem
from berth.rules.bounded_json import read_annotation, read_json


def test_read() -> None:
    assert read_annotation({"a": "[1, 2]"}, "a", list[int]) == [1, 2]


def test_absent_or_empty_is_nothing() -> None:
    assert read_annotation({}, "a", list[int]) is None
    assert read_annotation({"a": ""}, "a", list[int]) is None


def test_another_shape_names_the_annotation() -> None:
    problem = read_annotation({"a/b": '{"x": 1}'}, "a/b", list[int])
    assert isinstance(problem, Problem)
    assert problem.field == "metadata.annotations[a/b]"


def test_too_large() -> None:
    problem = read_json("[" + "1," * 50 + "1]", list[int], "f", bytes_max=100)
    assert isinstance(problem, Problem)
    assert "too large" in problem.message
    assert isinstance(read_json('"' + "é" * 60 + '"', str, "f", bytes_max=100), Problem)


def test_deep_nesting_and_lone_surrogates_are_problems() -> None:
    assert isinstance(read_json("[" * 30_000, object, "f"), Problem)
    assert isinstance(read_json('"\ud800"', str, "f"), Problem)


@given(st.text(max_size=200))
def test_any_text_is_a_list_or_a_problem(text: str) -> None:
    value = read_json(text, list[str], "f")
    assert isinstance(value, list | Problem)
    assert not isinstance(value, Problem) or len(value.message) < 250
