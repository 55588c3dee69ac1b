"""On which nodes a pod may run, and which it prefers: nodeSelector and node affinity.

A pod's rule is compiled once; the result is then asked about many nodes. Terms are alternatives, expressions within a
term all have to hold, an empty term matches nothing and so does an empty list of terms. A term with a broken
expression matches nothing and is named in `problems`: callers refuse the pod with them instead of placing it by half
of its rule.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.kube import Affinity, NodeAffinity, NodeSelectorTerm, PreferredTerm, Requirement
from berth.rules.selectors import Labels, LabelTest, all_equal, compile_requirement, conjunction, membership

NodeTest = Callable[[Labels, str], bool]

REASON: Final = "node(s) didn't match Pod's node affinity/selector"
CONFLICT_REASON: Final = "pod affinity terms conflict"
"""Of a pod whose terms all name nodes, and exclude each other."""
ENFORCED_REASON: Final = "node(s) didn't match scheduler-enforced node affinity"

TERMS_MAX: Final = 256
EXPRESSIONS_MAX: Final = 256
WEIGHT_MAX: Final = 100

_NAME_FIELD: Final = "metadata.name"
_AFFINITY_PATH: Final = "spec.affinity.nodeAffinity"
_REQUIRED_PATH: Final = f"{_AFFINITY_PATH}.requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_PATH: Final = f"{_AFFINITY_PATH}.preferredDuringSchedulingIgnoredDuringExecution"


class NodeRule(NamedTuple):
    """`matches(labels, name)`.

    `unrestricted`: it matches every node, so it need not be evaluated. `names`: None, or the only nodes that can
    match at all; empty when the pod's terms exclude each other.
    """

    matches: NodeTest
    unrestricted: bool = False
    names: frozenset[str] | None = None
    problems: tuple[Problem, ...] = ()


class NodePreference(NamedTuple):
    """`score(labels, name)` is the sum of the weights of the matching terms; `empty`: no term can ever count."""

    score: Callable[[Labels, str], int]
    empty: bool = False
    problems: tuple[Problem, ...] = ()


def compile_node_rule(node_selector: Mapping[str, str] | None, affinity: Affinity | NodeAffinity | None) -> NodeRule:
    """A pod's `spec.nodeSelector` and required node affinity together."""
    node_affinity = affinity.node_affinity if isinstance(affinity, Affinity) else affinity
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if required is None:
        if not node_selector:
            return NodeRule(_everywhere, unrestricted=True)
        return NodeRule(_on_labels(all_equal(node_selector)))
    rule = compile_terms(required.node_selector_terms, f"{_REQUIRED_PATH}.nodeSelectorTerms")
    if not node_selector:
        return rule
    selected, matches = all_equal(node_selector), rule.matches
    return rule._replace(matches=lambda labels, name: selected(labels) and matches(labels, name))


def compile_terms(terms: Sequence[NodeSelectorTerm], field: str) -> NodeRule:
    """Terms of which one has to hold. `metadata.name` is the only field they may name."""
    if len(terms) > TERMS_MAX:
        return NodeRule(_nowhere, problems=(Problem(field=field, message=f"has more than {TERMS_MAX} terms"),))
    tests: list[NodeTest] = []
    problems: list[Problem] = []
    for position, term in enumerate(terms):
        test = _compile_term(term, f"{field}[{position}]")
        if isinstance(test, list):
            problems.extend(test)
        elif test is not None:
            tests.append(test)
    return NodeRule(_any_of(tests), names=_only_names(terms), problems=tuple(problems))


def compile_preference(affinity: Affinity | NodeAffinity | None) -> NodePreference:
    """A pod's preferred node affinity."""
    node_affinity = affinity.node_affinity if isinstance(affinity, Affinity) else affinity
    terms = (node_affinity.preferred_during_scheduling_ignored_during_execution if node_affinity else None) or []
    weighted: list[tuple[int, NodeTest]] = []
    problems: list[Problem] = []
    if len(terms) > TERMS_MAX:
        problems.append(Problem(field=_PREFERRED_PATH, message=f"has more than {TERMS_MAX} terms"))
        terms = []
    for position, term in enumerate(terms):
        _compile_preferred(term, f"{_PREFERRED_PATH}[{position}]", weighted, problems)
    fixed = tuple(weighted)
    return NodePreference(
        lambda labels, name: sum(weight for weight, test in fixed if test(labels, name)),
        empty=not fixed,
        problems=tuple(problems),
    )


def _compile_preferred(
    term: PreferredTerm, field: str, weighted: list[tuple[int, NodeTest]], problems: list[Problem]
) -> None:
    if not 0 <= term.weight <= WEIGHT_MAX:
        problems.append(Problem(field=f"{field}.weight", message=f"must lie between 1 and {WEIGHT_MAX}"))
        return
    test = _compile_term(term.preference, f"{field}.preference")
    if isinstance(test, list):
        problems.extend(test)
    elif test is not None and term.weight > 0:
        weighted.append((term.weight, test))


def _compile_term(term: NodeSelectorTerm, field: str) -> NodeTest | list[Problem] | None:
    """A test, or its problems, or None for an empty term."""
    expressions, fields = term.match_expressions or [], term.match_fields or []
    if len(expressions) + len(fields) > EXPRESSIONS_MAX:
        return [Problem(field=field, message=f"has more than {EXPRESSIONS_MAX} expressions")]
    on_labels: list[LabelTest] = []
    on_name: list[LabelTest] = []
    problems: list[Problem] = []
    for position, expression in enumerate(expressions):
        _sort_in(
            compile_requirement(expression, f"{field}.matchExpressions[{position}]", numeric=True), on_labels, problems
        )
    for position, expression in enumerate(fields):
        _sort_in(_name_requirement(expression, f"{field}.matchFields[{position}]"), on_name, problems)
    if problems:
        return problems
    if not on_name:
        return _on_labels(conjunction(on_labels)) if on_labels else None
    labels_match, name_matches = conjunction(on_labels), conjunction(on_name)
    return lambda labels, name: name_matches({_NAME_FIELD: name}) and labels_match(labels)


def _name_requirement(expression: Requirement, field: str) -> LabelTest | Problem:
    if expression.key != _NAME_FIELD:
        return Problem(field=f"{field}.key", message=f"must be {_NAME_FIELD}, the only field that can be selected")
    if expression.operator not in {"In", "NotIn"}:
        return Problem(field=f"{field}.operator", message="must be In or NotIn for a field")
    if len(expression.values or []) != 1:
        return Problem(field=f"{field}.values", message="must be one name for a field")
    return membership(_NAME_FIELD, expression.values or [], expression.operator, field)


def _only_names(terms: Sequence[NodeSelectorTerm]) -> frozenset[str] | None:
    """The union over the terms of the node names each insists on; None as soon as a term insists on none."""
    union: set[str] = set()
    for term in terms:
        insisted = [
            frozenset(expression.values or [])
            for expression in term.match_fields or []
            if expression.key == _NAME_FIELD and expression.operator == "In"
        ]
        if not insisted:
            return None
        union |= frozenset.intersection(*insisted)
    return frozenset(union) if terms else None


def _sort_in(test: LabelTest | Problem, tests: list[LabelTest], problems: list[Problem]) -> None:
    if isinstance(test, Problem):
        problems.append(test)
    else:
        tests.append(test)


def _on_labels(test: LabelTest) -> NodeTest:
    return lambda labels, _name: test(labels)


def _any_of(tests: Sequence[NodeTest]) -> NodeTest:
    if not tests:
        return _nowhere
    if len(tests) == 1:
        return tests[0]
    alternatives = tuple(tests)
    return lambda labels, name: any(test(labels, name) for test in alternatives)


def _everywhere(_labels: Labels, _name: str) -> bool:
    return True


def _nowhere(_labels: Labels, _name: str) -> bool:
    return False
