"""Metrics that documents and tests name are made, and those that are made are named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.house.survey import DOCUMENTS, PACKAGES, ROOT, SERVICES, facts, sources


def metrics(folders: Iterable[Path]) -> set[str]:
    """The names of the metrics that modules of these folders make."""
    return {name for folder in folders for path in sources(folder) for name in facts(path).metrics}


def series(names_of_metrics: set[str]) -> set[str]:
    """The names under which Prometheus finds them."""
    return names_of_metrics | {f"{name}{part}" for name in names_of_metrics for part in ("_bucket", "_count", "_sum")}


def metrics_in_readme(service: str) -> set[str]:
    """What the section on metrics names; `_waiting` after `berth_solver_placed_total` is `berth_solver_waiting`."""
    text = (ROOT / f"services/{service}/README.md").read_text()
    found, prefix = set(), ""
    for name in re.findall(r"`(\w+)(?:\{[\w,]+\})?`", text.split("\n## Metrics\n")[1].split("\n## ")[0]):
        if name.startswith("berth_"):
            prefix = "_".join(name.split("_")[:2])
            found.add(name)
        elif name.startswith("_"):
            found.add(prefix + name)
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_the_readme_of_a_service_names_its_metrics(service: str) -> None:
    named = metrics_in_readme(service)
    assert named
    assert named <= metrics([ROOT / "services" / service, *ROOT.glob("libs/*")])
    assert metrics([ROOT / "services" / service]) <= named


def test_metrics_in_documents_and_tests_of_the_whole_exist() -> None:
    known = series(metrics(PACKAGES))
    families = {"_".join(name.split("_")[:2]) for name in known}
    texts = [*DOCUMENTS, *ROOT.glob("services/*/README.md"), *ROOT.glob("libs/*/README.md"), *ROOT.glob("k8s/**/*.md")]
    programs = [
        path for folder in ("e2e", "deploy", "cluster", "chaos") for path in ROOT.glob(f"tests/{folder}/**/*.py")
    ]
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (*texts, *programs)
        for name in re.findall(r"\bberth(?:_[a-z0-9]+){2,}\b(?![(*])", path.read_text())
        if "_".join(name.split("_")[:2]) in families and name not in known
    }
    assert not wrong
