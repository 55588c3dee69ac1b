"""The sample of the ConfigMap of strategies: what the tool writes, and nothing that the service would refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.manifests import tool

from berth.contracts.slo import CONFIG_MAP
from berth.rules.admission.gates import CONFIG_MAP_VALIDATING
from berth.rules.admission.review import review
from berth.rules.admission.seam import CREATE, Request
from berth.rules.admission.views import Views
from berth.rules.node_strategies.config import DEFAULTS, KEYS, read_config
from berth.rules.webhooks import DOORS

TOOL = tool("strategy_sample")
SAMPLE: dict[str, Any] = yaml.safe_load(TOOL.TARGET.read_text())


def reviewed(data: dict[str, str]) -> tuple[str, ...]:
    asked = Request(uid="u", operation=CREATE, name=SAMPLE["metadata"]["name"], object={**SAMPLE, "data": data})
    answer = review("/validate-configmap", asked, Views(), gates=frozenset({CONFIG_MAP_VALIDATING}))
    return tuple(each.text for each in answer.refusals)


def test_the_sample_is_what_the_tool_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert TOOL.TARGET.read_text() == TOOL.sample(), "run tools/strategy_sample.py"
    monkeypatch.setattr(TOOL, "TARGET", tmp_path / "sample.yaml")
    monkeypatch.setattr("sys.argv", ["strategy_sample.py", "--check"])
    assert TOOL.main() == 1


def test_the_sample_says_what_holds_without_it() -> None:
    assert set(SAMPLE["data"]) == set(KEYS)
    found = read_config(SAMPLE["data"], {})
    assert (found.problems, found.unusable) == ((), ())
    assert found.sections == DEFAULTS.sections


def test_the_sample_is_looked_at_and_admitted() -> None:
    metadata, door = SAMPLE["metadata"], DOORS["validate-configmap"]
    assert f"{metadata['namespace']}/{metadata['name']}" == CONFIG_MAP
    assert door.label in metadata["labels"].items()
    assert reviewed(SAMPLE["data"]) == ()
    wrong = json.loads(SAMPLE["data"]["resource-threshold-config"])
    wrong["clusterStrategy"]["cpuSuppressThresholdPercent"] = 101
    (refusal,) = reviewed({**SAMPLE["data"], "resource-threshold-config": json.dumps(wrong)})
    assert "cpuSuppressThresholdPercent" in refusal


def test_every_field_that_is_named_can_be_set() -> None:
    """A field that the comments name and the shape does not know would be carried, and mean nothing."""
    text = TOOL.TARGET.read_text()
    for name in ("catRangeStartPercent", "cpuEvictBESatisfactionUpperPercent", "midStaticCPUReservedPercent"):
        assert f"{name}: integer from 0 to 100" in text
