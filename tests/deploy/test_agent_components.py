"""The rights of node agents are those that their strategies name, and no others."""

from __future__ import annotations

import msgspec
import pytest
from tests.deploy.manifests import tool

from berth.node_qos_enforcer.core.strategies.knobs import KNOBS
from berth.node_qos_enforcer.core.strategies.registry import STRATEGIES
from berth.node_qos_enforcer.core.strategies.seam import Strategy
from berth.node_qos_enforcer.settings import Settings

TOOL = tool("agent_components")
WRITTEN = TOOL.files()


def test_the_files_are_those_of_the_registry() -> None:
    stale = [str(path) for path, text in WRITTEN.items() if not path.exists() or path.read_text() != text]
    assert stale == [], "run tools/agent_components.py"
    there = {path.parent.name for path in TOOL.FOLDER.glob("enforce*/agent.yaml")}
    assert there == {each.component for each in STRATEGIES}


def test_each_component_is_switched_on_by_a_setting() -> None:
    fields = {each.name for each in msgspec.structs.fields(Settings)}
    assert {each.component.replace("-", "_") for each in STRATEGIES} <= fields


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.name)
def test_a_strategy_says_all_that_it_needs(strategy: Strategy) -> None:
    knobs = [KNOBS[name] for name in strategy.needs.knobs]
    assert knobs, "what it sets is undone by these names"
    text = WRITTEN[TOOL.FOLDER / strategy.component / "agent.yaml"]
    assert strategy.name in text
    for capability in strategy.needs.capabilities:
        assert capability in text or "privileged: true" in text


def test_the_plain_component_gives_no_capability_and_no_namespace_of_the_host() -> None:
    of_enforce = WRITTEN[TOOL.FOLDER / "enforce/agent.yaml"]
    assert not any(word in of_enforce for word in ("privileged", "capabilities: {add", "hostPID", "hostNetwork"))
