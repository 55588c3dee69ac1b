"""Node selector, required and preferred node affinity."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.kube import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PreferredTerm,
    Requirement,
)
from berth.rules.node_affinity import (
    ENFORCED_REASON,
    REASON,
    TERMS_MAX,
    compile_node_rule,
    compile_preference,
)
from berth.rules.scheduler_config import NodeAffinityArgs
from berth.rules.scheduler_config.args import read_args
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/node_affinity"))
def test_vector(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    affinity = msgspec.convert(
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": given["required"]}
            if "required" in given
            else None,
            "preferredDuringSchedulingIgnoredDuringExecution": given.get("preferred"),
        },
        NodeAffinity,
    )
    rule, preference = compile_node_rule(given.get("nodeSelector"), affinity), compile_preference(affinity)
    assert rule.matches(given["labels"], given["nodeName"]) is expect["match"]
    assert preference.score(given["labels"], given["nodeName"]) == expect["rawScore"]


def world(case: dict[str, Any]) -> tuple[Pod, dict[str, dict[str, str]]]:
    given = case["given"]
    nodes = msgspec.convert(given["nodes"], list[Node])
    return msgspec.convert(given["pod"], Pod), {node.metadata.name: node.metadata.labels or {} for node in nodes}


def added(case: dict[str, Any]) -> NodeAffinity | None:
    """What the configuration adds to every pod."""
    args = read_args("NodeAffinity", case["given"].get("args", {}), "args")
    assert isinstance(args, NodeAffinityArgs)
    return args.added_affinity


@pytest.mark.parametrize("case", cases("kube-scheduler/node_affinity_filter"))
def test_filter_vector(case: dict[str, Any]) -> None:
    pod, nodes = world(case)
    enforced = compile_node_rule(None, added(case))
    rule = compile_node_rule(pod.spec.node_selector, pod.spec.affinity)
    assert (enforced.problems, rule.problems) == ((), ())
    if "preFilter" in case["expect"]:
        assert rule.names == frozenset()
        return
    if "onlyNodes" in case["expect"]:
        assert rule.names == frozenset(case["expect"]["onlyNodes"])
    for name, expect in case["expect"]["nodes"].items():
        held = [
            reason
            for each, reason in ((enforced, ENFORCED_REASON), (rule, REASON))
            if not each.unrestricted and not each.matches(nodes[name], name)
        ]
        assert (not held) == (expect["code"] == "Success")
        assert expect.get("reasons", []) == held[:1]


@pytest.mark.parametrize("case", cases("kube-scheduler/node_affinity_score"))
def test_score_vector(case: dict[str, Any]) -> None:
    pod, nodes = world(case)
    preferences = [compile_preference(pod.spec.affinity), compile_preference(added(case))]
    if case["expect"].get("skipped"):
        assert all(each.empty for each in preferences)
        return
    feasible = case["given"].get("feasibleNodes", list(nodes))
    raw = [sum(each.score(nodes[name], name) for each in preferences) for name in feasible]
    assert dict(zip(feasible, raw, strict=True)) == case["expect"]["raw"]


def required(*terms: NodeSelectorTerm) -> NodeAffinity:
    return NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=list(terms))
    )


def on_labels(*expressions: Requirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=list(expressions))


def on_fields(*expressions: Requirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=list(expressions))


PATH = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"


@pytest.mark.parametrize(
    ("term", "field"),
    [
        (on_labels(Requirement(key="a", operator="Near", values=["1"])), "matchExpressions[0].operator"),
        (on_labels(Requirement(key="", operator="Exists")), "matchExpressions[0].key"),
        (on_labels(Requirement(key="a", operator="In")), "matchExpressions[0].values"),
        (
            on_labels(Requirement(key="a", operator="NotIn", values=["x", "a b"])),
            "matchExpressions[0].values[1]",
        ),
        (on_labels(Requirement(key="a", operator="Exists", values=["x"])), "matchExpressions[0].values"),
        (on_labels(Requirement(key="a", operator="Gt", values=["1", "2"])), "matchExpressions[0].values"),
        (on_labels(Requirement(key="a", operator="Lt", values=["1.5"])), "matchExpressions[0].values"),
        (on_fields(Requirement(key="spec.x", operator="In", values=["n"])), "matchFields[0].key"),
        (on_fields(Requirement(key="metadata.name", operator="Exists")), "matchFields[0].operator"),
        (on_fields(Requirement(key="metadata.name", operator="In", values=["a", "b"])), "matchFields[0].values"),
    ],
)
def test_a_broken_term_matches_nothing_and_is_named(term: NodeSelectorTerm, field: str) -> None:
    rule = compile_node_rule(None, required(term))
    assert [problem.field for problem in rule.problems] == [f"{PATH}.{field}"]
    assert not rule.matches({"a": "2"}, "n")


def test_too_many_terms_match_nothing() -> None:
    term = on_labels(Requirement(key="a", operator="Exists"))
    rule = compile_node_rule(None, required(*[term] * (TERMS_MAX + 1)))
    assert rule.problems
    assert not rule.matches({"a": "1"}, "n")


@pytest.mark.parametrize("weight", [-1, 101])
def test_a_weight_out_of_range_is_named_and_does_not_count(weight: int) -> None:
    term = PreferredTerm(weight=weight, preference=on_labels(Requirement(key="a", operator="Exists")))
    preference = compile_preference(NodeAffinity(preferred_during_scheduling_ignored_during_execution=[term]))
    assert preference.empty
    assert preference.problems[0].field.endswith("[0].weight")


def test_names_of_terms_are_united_and_within_a_term_intersected() -> None:
    def named(*names: str) -> NodeSelectorTerm:
        return on_fields(*[Requirement(key="metadata.name", operator="In", values=[name]) for name in names])

    assert compile_node_rule(None, required(named("a"), named("b"))).names == frozenset({"a", "b"})
    assert compile_node_rule(None, required(named("a", "b"))).names == frozenset()
    exists = on_labels(Requirement(key="x", operator="Exists"))
    assert compile_node_rule(None, required(named("a"), exists)).names is None


def test_a_node_name_may_be_longer_than_a_label() -> None:
    name = ".".join(["n" * 60] * 3)
    rule = compile_node_rule(None, required(on_fields(Requirement(key="metadata.name", operator="In", values=[name]))))
    assert rule.problems == ()
    assert rule.matches({}, name)
    assert not rule.matches({}, "n")


def test_selector_and_terms_both_have_to_hold() -> None:
    rule = compile_node_rule({"pool": "a"}, required(on_labels(Requirement(key="gpu", operator="Exists"))))
    assert rule.matches({"pool": "a", "gpu": ""}, "n")
    assert not rule.matches({"pool": "b", "gpu": ""}, "n")
    assert not rule.matches({"pool": "a"}, "n")


@pytest.mark.parametrize(("operator", "matching"), [("Gt", "10"), ("Lt", "8")])
def test_comparisons_are_strict(operator: str, matching: str) -> None:
    rule = compile_node_rule(None, required(on_labels(Requirement(key="cores", operator=operator, values=["9"]))))
    assert [value for value in ("8", "9", "10", "nine", "") if rule.matches({"cores": value}, "n")] == [matching]


def test_no_rule_is_unrestricted() -> None:
    assert compile_node_rule({}, Affinity()).unrestricted
    assert not compile_node_rule({"a": "b"}, None).unrestricted


words = st.sampled_from(["a", "b", "1", "7", "x"])
labels = st.dictionaries(st.sampled_from(["k", "l"]), words)
expressions = st.one_of(
    st.builds(
        Requirement,
        key=st.sampled_from(["k", "l"]),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(words, min_size=1, max_size=3),
    ),
    st.builds(Requirement, key=st.sampled_from(["k", "l"]), operator=st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        Requirement,
        key=st.sampled_from(["k", "l"]),
        operator=st.sampled_from(["Gt", "Lt"]),
        values=st.lists(st.sampled_from(["0", "1", "7", "-3"]), min_size=1, max_size=1),
    ),
)
terms = st.lists(st.builds(NodeSelectorTerm, match_expressions=st.lists(expressions, max_size=3)), max_size=3)


def holds(expression: Requirement, node: dict[str, str]) -> bool:
    """The definition of the operators, written out a second time."""
    value, values = node.get(expression.key), expression.values or []
    match expression.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None or not value.isdecimal():
        return False
    return int(value) > int(values[0]) if expression.operator == "Gt" else int(value) < int(values[0])


@given(terms, labels, labels)
def test_compiled_equals_defined(
    alternatives: list[NodeSelectorTerm], selector: dict[str, str], node: dict[str, str]
) -> None:
    rule = compile_node_rule(selector, required(*alternatives))
    expected = all(node.get(key) == value for key, value in selector.items()) and any(
        term.match_expressions and all(holds(each, node) for each in term.match_expressions) for term in alternatives
    )
    assert rule.matches(node, "n") == expected
    assert rule.problems == ()
