"""Alert rules speak of metrics and labels that the services have, and the operations guide of every alert."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "k8s/components/alerts/alerts.yaml"
GUIDE = (ROOT / "docs/operations.md").read_text()
MAKERS = {"counter": "", "gauge": "", "histogram": "_bucket", "Counter": "", "Gauge": "", "Histogram": "_bucket"}
SELECTED = re.compile(r"(berth_\w+)(?:{([^}]*)})?")


def metrics() -> dict[str, set[str]]:
    """Every series that the code makes, with its labels."""
    found: dict[str, set[str]] = {}
    for path in (*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if '"berth_' in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in MAKERS and node.args:
                name = node.args[0]
                if isinstance(name, ast.Constant) and str(name.value).startswith("berth_"):
                    more = (*node.args[2:], *(keyword.value for keyword in node.keywords))
                    lists = [each for each in more if isinstance(each, ast.List)]
                    labels = {str(each.value) for made in lists for each in made.elts if isinstance(each, ast.Constant)}
                    found[str(name.value) + MAKERS[node.func.id]] = labels  # type: ignore[attr-defined]
    return found


def rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load(RULES.read_text())["spec"]["groups"]:
        yield from group["rules"]


METRICS = metrics()
ALERTS = {rule["alert"]: rule for rule in rules()}


def test_there_are_metrics_and_alerts() -> None:
    assert len(METRICS) > 50
    assert len(ALERTS) == len(list(rules()))


@pytest.mark.parametrize("name", sorted(ALERTS))
class TestAlert:
    def test_its_metrics_exist_with_their_labels(self, name: str) -> None:
        selected = SELECTED.findall(ALERTS[name]["expr"])
        assert selected
        for metric, selectors in selected:
            assert metric in METRICS
            assert set(re.findall(r"(\w+)\s*=~?", selectors)) <= METRICS[metric], selectors

    def test_it_groups_by_labels_that_exist(self, name: str) -> None:
        expr = ALERTS[name]["expr"]
        known = {label for metric, _ in SELECTED.findall(expr) for label in METRICS[metric]} | {"le", "instance"}
        for by in re.findall(r"\bby \(([^)]*)\)", expr):
            assert {label.strip() for label in by.split(",")} <= known
        for shown in re.findall(r"\$labels\.(\w+)", ALERTS[name]["annotations"]["summary"]):
            assert shown in re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", expr)))

    def test_it_says_how_bad_it_is_and_the_guide_what_to_do(self, name: str) -> None:
        assert ALERTS[name]["labels"]["severity"] in ("critical", "warning", "info")
        assert ALERTS[name]["annotations"]["summary"]
        assert f"`{name}`" in GUIDE


def test_the_guide_names_no_metric_that_is_not_there() -> None:
    known = {metric.removesuffix("_bucket") for metric in METRICS} | set(METRICS)
    named = set(re.findall(r"`(berth_(?:writer|solver|cluster|bus|quota|runtime|kube|devices|node)_[a-z_]+)`", GUIDE))
    assert named
    assert named <= known
