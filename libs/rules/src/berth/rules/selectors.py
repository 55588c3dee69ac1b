"""Label selectors, read once and evaluated many times.

Semantics are Kubernetes' own: no selector (null) selects nothing, an empty one everything; `NotIn` and `DoesNotExist`
hold where the label is missing. A selector with a broken expression selects nothing and says why, so that a mistake
never widens what is selected.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.kube import LabelSelector, Requirement
from berth.rules.numbers import parse_integer

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")

EXPRESSIONS_MAX: Final = 256
VALUES_MAX: Final = 4096


class CompiledSelector(NamedTuple):
    """`matches(labels)`, and what is wrong with the selector (it then matches nothing)."""

    matches: LabelTest
    problems: tuple[Problem, ...] = ()


def compile_selector(selector: LabelSelector | None, field: str = "labelSelector") -> CompiledSelector:
    """The selector as a test on labels. `field` is its path, for problems."""
    if selector is None:
        return CompiledSelector(_never)
    wanted = selector.match_labels or {}
    expressions = selector.match_expressions or []
    if len(wanted) + len(expressions) > EXPRESSIONS_MAX:
        return CompiledSelector(_never, (Problem(field=field, message=f"has more than {EXPRESSIONS_MAX} expressions"),))
    tests: list[LabelTest] = [all_equal(wanted)] if wanted else []
    problems = _match_labels_problems(wanted, f"{field}.matchLabels")
    for position, expression in enumerate(expressions):
        test = compile_requirement(expression, f"{field}.matchExpressions[{position}]")
        if isinstance(test, Problem):
            problems.append(test)
        else:
            tests.append(test)
    if problems:
        return CompiledSelector(_never, tuple(problems))
    return CompiledSelector(conjunction(tests))


def all_equal(wanted: Mapping[str, str]) -> LabelTest:
    """Every wanted label is there with this value, as in `matchLabels` and `nodeSelector`."""
    if len(wanted) == 1:
        ((key, value),) = wanted.items()
        return lambda labels: labels.get(key) == value
    pairs = dict(wanted).items()
    return lambda labels: pairs <= labels.items()


def conjunction(tests: Sequence[LabelTest]) -> LabelTest:
    """All of the tests; always true when there is none."""
    if not tests:
        return _always
    if len(tests) == 1:
        return tests[0]
    every = tuple(tests)
    return lambda labels: all(test(labels) for test in every)


def compile_requirement(expression: Requirement, field: str, *, numeric: bool = False) -> LabelTest | Problem:
    """One expression as a test, or a problem that names the part of `field` that is wrong.

    Label selectors know In, NotIn, Exists and DoesNotExist; `numeric` adds Gt and Lt of node selectors.
    """
    key, values, operator = expression.key, expression.values or [], expression.operator
    if not is_label_key(key):
        return Problem(field=f"{field}.key", message=f"{_clipped(key)!r} is no label key")
    if len(values) > VALUES_MAX:
        return Problem(field=f"{field}.values", message=f"has more than {VALUES_MAX} values")
    match operator:
        case "In" | "NotIn":
            for position, value in enumerate(values):
                if not is_label_value(value):
                    return _bad_value(value, f"{field}.values[{position}]")
            return membership(key, values, operator, field)
        case "Exists" | "DoesNotExist":
            return _presence(key, values, operator, field)
        case "Gt" | "Lt" if numeric:
            return _comparison(key, values, operator, field)
    known = "In, NotIn, Exists, DoesNotExist" + (", Gt, Lt" if numeric else "")
    return Problem(field=f"{field}.operator", message=f"{_clipped(operator)!r} is none of {known}")


def membership(key: str, values: Sequence[str], operator: str, field: str) -> LabelTest | Problem:
    """`In`, or `NotIn` for any other operator, without asking whether the values could be labels."""
    if not values:
        return Problem(field=f"{field}.values", message=f"must not be empty for operator {operator}")
    if operator == "In" and len(values) == 1:
        value = values[0]
        return lambda labels: labels.get(key) == value
    listed = frozenset(values)  # a missing label reads as None, which is never listed
    if operator == "In":
        return lambda labels: labels.get(key) in listed
    return lambda labels: labels.get(key) not in listed


def is_label_key(key: str) -> bool:
    """A name of at most 63 characters, with an optional DNS subdomain and a slash before it."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or _SUBDOMAIN.fullmatch(prefix) is None):
        return False
    return len(name) <= 63 and _NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Empty, or a name of at most 63 characters."""
    return not value or (len(value) <= 63 and _NAME.fullmatch(value) is not None)


def _match_labels_problems(wanted: Mapping[str, str], field: str) -> list[Problem]:
    problems: list[Problem] = []
    for key, value in wanted.items():
        if not is_label_key(key):
            problems.append(Problem(field=field, message=f"{_clipped(key)!r} is no label key"))
        elif not is_label_value(value):
            problems.append(_bad_value(value, f"{field}[{key}]"))
    return problems


def _bad_value(value: str, field: str) -> Problem:
    return Problem(field=field, message=f"{_clipped(value)!r} is no label value")


def _presence(key: str, values: Sequence[str], operator: str, field: str) -> LabelTest | Problem:
    if values:
        return Problem(field=f"{field}.values", message=f"must be empty for operator {operator}")
    if operator == "Exists":
        return lambda labels: key in labels
    return lambda labels: key not in labels


def _comparison(key: str, values: Sequence[str], operator: str, field: str) -> LabelTest | Problem:
    bound = parse_integer(values[0]) if len(values) == 1 else None
    if bound is None:
        return Problem(field=f"{field}.values", message=f"must be one integer for operator {operator}")

    def compare(labels: Labels) -> bool:
        text = labels.get(key)
        number = None if text is None else parse_integer(text)
        if number is None:
            return False
        return number > bound if operator == "Gt" else number < bound

    return compare


def _clipped(text: str) -> str:
    return text if len(text) <= 64 else text[:61] + "..."


def _never(_labels: Labels) -> bool:
    return False


def _always(_labels: Labels) -> bool:
    return True
