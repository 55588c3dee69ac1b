"""Label selectors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.kube import LabelSelector, Requirement
from berth.rules.selectors import EXPRESSIONS_MAX, VALUES_MAX, compile_selector, is_label_key


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=[Requirement(key=key, operator=operator, values=list(values))])


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        (None, {}, False),
        (LabelSelector(), {}, True),
        (LabelSelector(match_labels={"a": "1"}), {"a": "1", "b": "2"}, True),
        (LabelSelector(match_labels={"a": "1", "b": "2"}), {"a": "1"}, False),
        (LabelSelector(match_labels={"a": ""}), {}, False),
        (expression("a", "In", "1", "2"), {"a": "2"}, True),
        (expression("a", "In", "1", "2"), {}, False),
        (expression("a", "NotIn", "1"), {}, True),
        (expression("a", "NotIn", "1"), {"a": "1"}, False),
        (expression("a", "Exists"), {"a": ""}, True),
        (expression("a", "DoesNotExist"), {"a": ""}, False),
        (expression("a", "DoesNotExist"), {}, True),
    ],
)
def test_operators(selector: LabelSelector | None, labels: dict[str, str], matches: bool) -> None:
    assert compile_selector(selector).matches(labels) is matches


@pytest.mark.parametrize(
    ("selector", "field"),
    [
        (expression("a", "Gt", "1"), "s.matchExpressions[0].operator"),
        (expression("a", "in", "1"), "s.matchExpressions[0].operator"),
        (expression("a", "In"), "s.matchExpressions[0].values"),
        (expression("a", "Exists", "1"), "s.matchExpressions[0].values"),
        (expression("", "Exists"), "s.matchExpressions[0].key"),
        (expression("a", "In", *map(str, range(VALUES_MAX + 1))), "s.matchExpressions[0].values"),
        (expression("a/b/c", "Exists"), "s.matchExpressions[0].key"),
        (expression("a", "NotIn", "ok", "not ok"), "s.matchExpressions[0].values[1]"),
        (LabelSelector(match_labels={"a": "x" * 64}), "s.matchLabels[a]"),
        (LabelSelector(match_labels={"-a": "x"}), "s.matchLabels"),
        (LabelSelector(match_labels=dict.fromkeys(map(str, range(EXPRESSIONS_MAX + 1)), "")), "s"),
    ],
)
def test_a_broken_selector_selects_nothing_and_is_named(selector: LabelSelector, field: str) -> None:
    compiled = compile_selector(selector, "s")
    assert [problem.field for problem in compiled.problems] == [field]
    assert not compiled.matches({"a": "1"})
    assert not compiled.matches({})


def test_one_broken_expression_among_good_ones_selects_nothing() -> None:
    good, bad = Requirement(key="a", operator="Exists"), Requirement(key="b", operator="?")
    assert not compile_selector(LabelSelector(match_expressions=[good, bad])).matches({"a": "1"})


@pytest.mark.parametrize("key", ["a", "A_b.c-1", "x" * 63, "example.com/a", "a-1.b/c"])
def test_label_keys(key: str) -> None:
    assert is_label_key(key)


@pytest.mark.parametrize("key", ["", "/a", "a/", "-a", "a-", "a b", "x" * 64, "Example.com/a", "a..b/c", "a\n", "é"])
def test_no_label_keys(key: str) -> None:
    assert not is_label_key(key)


labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"))
values = st.lists(st.sampled_from("123"), min_size=1, max_size=3)


@given(st.sampled_from("abc"), values, labels)
def test_in_and_not_in_are_opposites(key: str, listed: list[str], given_labels: dict[str, str]) -> None:
    inside, outside = expression(key, "In", *listed), expression(key, "NotIn", *listed)
    assert compile_selector(inside).matches(given_labels) != compile_selector(outside).matches(given_labels)


@given(labels, labels)
def test_match_labels_means_subset(wanted: dict[str, str], given_labels: dict[str, str]) -> None:
    assert compile_selector(LabelSelector(match_labels=wanted)).matches(given_labels) == (
        {**given_labels, **wanted} == given_labels
    )
