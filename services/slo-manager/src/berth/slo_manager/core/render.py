"""The strategy of one node, from the strategies of the cluster, the node's labels and its annotations.

The first node strategy that matches wins, section by section; that others match as well is said, since nobody would
see it. A section that could never be read since this process started stays as it was published.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.slo import CpuSuppress, NodeSLO
from berth.contracts.state import Node
from berth.rules.node_strategies.config import DEFAULTS, SPEC, SYSTEM, THRESHOLD, Config, Section
from berth.rules.node_strategies.shapes import Threshold, bandwidth_problem, check

ANNOTATION_MAX: Final = 256
PROBLEMS_MAX: Final = 20


def render(node: Node, config: Config, published: NodeSLO | None) -> NodeSLO:
    """Give what holds on a node.

    Args:
        node: with labels and annotations.
        config: the strategies.
        published: what was said of the node before; None: nothing.
    """
    spec: dict[str, Any] = {}
    strategies: dict[str, str] = {}
    problems: list[Problem] = []
    for section in SPEC:
        known = config.sections.get(section)
        if known is None:
            _keep(section, spec, strategies, published)
        else:
            spec[section] = chosen(section, known, node.labels, strategies, problems)
    _annotated_bandwidth(node, spec, problems)
    return NodeSLO(
        node=node.name,
        uid=node.uid,
        cpu_suppress=cpu_suppress(spec.get(THRESHOLD, {})),
        strategies=strategies,
        spec=spec,
        problems=problems[:PROBLEMS_MAX],
    )


def cpu_suppress(section: Mapping[str, Any]) -> CpuSuppress:
    """Take the rule for best-effort CPU from its section of the spec."""
    default = CpuSuppress()
    return CpuSuppress(
        enabled=section.get("enable", default.enabled),
        threshold_percent=section.get("cpuSuppressThresholdPercent", default.threshold_percent),
        min_percent=section.get("cpuSuppressMinPercent"),
        policy=section.get("cpuSuppressPolicy", default.policy),
    )


def chosen(
    name: str, section: Section, labels: Mapping[str, str], strategies: dict[str, str], problems: list[Problem]
) -> Any:
    """What a section says of a node with these labels; the strategy that says so is noted in `strategies`."""
    matching = [strategy for strategy in section.nodes if strategy.matches(labels)]
    if not matching:
        return section.cluster
    strategies[name] = matching[0].name
    if len(matching) > 1:
        others = ", ".join(strategy.name for strategy in matching[1:5])
        problems.append(Problem(field=name, message=f"{matching[0].name} counts; these match, too: {others}"[:300]))
    return matching[0].value


def _keep(section: str, spec: dict[str, Any], strategies: dict[str, str], published: NodeSLO | None) -> None:
    """Keep a published section as far as it is sound; without one, the default."""
    spec[section] = DEFAULTS.sections[section].cluster
    if published is None or section not in published.spec:
        return
    value = published.spec[section]
    if section == THRESHOLD and check(value, Threshold, section) is not None:
        return
    spec[section] = value
    if section in published.strategies:
        strategies[section] = published.strategies[section]


def _annotated_bandwidth(node: Node, spec: dict[str, Any], problems: list[Problem]) -> None:
    """Let the node's annotation say its bandwidth; one that cannot be read leaves the whole section out."""
    text = node.annotations.get(names.ANNOTATION_NODE_BANDWIDTH)
    if text is None:
        return
    problem = bandwidth_problem(text) if len(text) <= ANNOTATION_MAX else f"longer than {ANNOTATION_MAX} characters"
    if problem:
        field = f"metadata.annotations[{names.ANNOTATION_NODE_BANDWIDTH}]"
        problems.append(Problem(field=field, message=problem))
        del spec[SYSTEM]
    else:
        spec[SYSTEM] = {**spec[SYSTEM], "totalNetworkBandwidth": text}
