"""The ConfigMap of strategies: texts that can be read, values in their ranges, no node with two strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from berth.contracts.kube import LabelSelector
from berth.contracts.names import LABEL_CONFIG_MAP_TYPE, SLO_CONFIG_MAP_TYPE
from berth.rules.admission.draft import mapping_in, texts_in
from berth.rules.admission.network_qos import network_problem
from berth.rules.admission.node_selectors import matching, overlapping
from berth.rules.admission.seam import Case, Refusal
from berth.rules.node_strategies.config import DEFAULTS, KEYS, QOS, SYSTEM, Config, NodeStrategy, Section, read_config

Nodes = Callable[[], Iterable[tuple[str, Mapping[str, str]]]]

PARSE: Final = "ParseConfigFail"
PARAMETER: Final = "ConfigParamInvalid"
OVERLAP: Final = "NodeStrategiesOverlap"
CONFLICT: Final = "ExistNodeConfict"
"""Spelled as in the protocol."""
EXAMPLES_MAX: Final = 3
NAME: Final = "slo-controller-config"
_TOTAL: Final = "totalNetworkBandwidth"
_PLACES: Final = ("nodeStrategies", "nodeConfigs")


def config_refusals(
    data: Mapping[str, str], old: Mapping[str, str], nodes: Nodes, *, names_required: bool = False
) -> Iterator[Refusal]:
    """What is wrong with the texts that differ from before, for all of them at once.

    Args:
        data: texts by key, as they are to be.
        old: as they were.
        nodes: names and labels of the nodes that there are.
        names_required: every node strategy has a name, and no two of a key the same.
    """
    whole = read_config({key: text for key, text in data.items() if key in KEYS}, DEFAULTS.sections)
    for key in KEYS:
        text = data.get(key, "")
        if not text.strip() or text == old.get(key):
            continue
        problem = _unreadable(text)
        if problem:
            yield Refusal(PARSE, f"data[{key}]", problem)
            continue
        found = read_config({key: text}, {})
        for each in found.problems:
            yield Refusal(PARAMETER, each.field, each.message)
        if found.problems:
            continue
        section = next(name for name in found.given)
        strategies = found.sections[section].nodes
        yield from _selectors(key, strategies)
        if names_required:
            yield from _names(key, text)
        yield from _meeting(key, strategies, nodes)
        if section == QOS:
            yield from _network(key, found.sections[section], whole)


def run(case: Case) -> None:
    """The rule."""
    item = case.draft.now
    is_ours = texts_in(item, "metadata", "labels").get(LABEL_CONFIG_MAP_TYPE) == SLO_CONFIG_MAP_TYPE
    if not is_ours and case.request.name != NAME:
        return
    case.is_message_json = True
    views = case.views
    for refusal in config_refusals(
        texts_in(item, "data"),
        texts_in(case.request.old_object or {}, "data"),
        views.nodes,
        names_required=views.strategy_names_required,
    ):
        case.refuse(*refusal)


def _unreadable(text: str) -> str:
    """Why a text is no JSON object; empty when it is one."""
    try:
        msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return f"is no JSON object: {str(error)[:200]}"
    return ""


def _selectors(key: str, strategies: Iterable[NodeStrategy]) -> Iterator[Refusal]:
    for place, each in enumerate(strategies):
        selector = each.selector
        if selector is None or not (selector.match_labels or selector.match_expressions):
            text = f"node strategy {each.name!r} needs a selector that is not empty"
            yield Refusal(PARAMETER, f"data[{key}].nodes[{place}].nodeSelector", text)


def _names(key: str, text: str) -> Iterator[Refusal]:
    document = msgspec.json.decode(text)
    seen: set[str] = set()
    for field in _PLACES:
        for place, each in enumerate(document.get(field) or ()):
            name = str(mapping_in(each).get("name") or "")
            where = f"data[{key}].{field}[{place}].name"
            if not name:
                yield Refusal(PARAMETER, where, "must not be empty")
            elif name in seen:
                yield Refusal(PARAMETER, where, f"{name[:80]!r} is the name of another one")
            seen.add(name)


def _meeting(key: str, strategies: tuple[NodeStrategy, ...], nodes: Nodes) -> Iterator[Refusal]:
    """Two strategies for one node: by what they select, and by the nodes that there are."""
    pair = overlapping([each.selector or LabelSelector() for each in strategies])
    if pair is not None:
        first, second = (strategies[place].name for place in pair)
        yield Refusal(OVERLAP, f"data[{key}]", f"{first!r} and {second!r} select the same nodes")
    if len(strategies) < 2:
        return
    examples: list[str] = []
    tests = [each.matches for each in strategies]
    for name, labels in nodes():
        found = [strategies[place].name for place in matching(tests, labels)]
        if len(found) > 1:
            examples.append(f"{name} ({', '.join(found[:EXAMPLES_MAX])})")
            if len(examples) == EXAMPLES_MAX:
                break
    if examples:
        yield Refusal(CONFLICT, f"data[{key}]", f"nodes match several strategies: {'; '.join(examples)}")


def _network(key: str, section: Section, whole: Config) -> Iterator[Refusal]:
    system = whole.sections.get(SYSTEM, DEFAULTS.sections[SYSTEM])
    problem = network_problem(section.cluster, system.cluster.get(_TOTAL))
    if problem is not None:
        yield Refusal(PARAMETER, f"data[{key}].clusterStrategy.{problem.field}", problem.message)
    for place, each in enumerate(section.nodes):
        beside = next((other.value for other in system.nodes if other.selector == each.selector), system.cluster)
        problem = network_problem(each.value, beside.get(_TOTAL))
        if problem is not None:
            yield Refusal(PARAMETER, f"data[{key}].nodeStrategies[{place}].{problem.field}", problem.message)
