"""The Dockerfile: plain syntax, one image per service, nothing that a container needs not."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = re.findall(r"^([A-Z]+) (.*)$", DOCKERFILE, re.MULTILINE)


def test_every_image_has_a_package(house: Any) -> None:
    packages = {
        tomllib.loads(path.read_text())["project"]["name"]
        for pattern in ("libs/*/pyproject.toml", "services/*/pyproject.toml")
        for path in ROOT.glob(pattern)
    }
    assert {f"berth-{service}" for service in house.services} <= packages
    assert {"berth-simcluster", "berth-cli"} <= packages


def test_every_image_has_a_module(house: Any) -> None:
    for service in house.services:
        module = service.replace("-", "_")
        assert (ROOT / f"services/{service}/src/berth/{module}/__main__.py").is_file()
    assert (ROOT / "libs/simcluster/src/berth/simcluster/__main__.py").is_file()
    assert (ROOT / "libs/cli/src/berth/cli/__main__.py").is_file()


def test_no_buildkit_only_syntax() -> None:
    assert not DOCKERFILE.startswith("# syntax")
    assert "--mount" not in DOCKERFILE
    assert "<<" not in DOCKERFILE


def test_the_last_stage_runs_without_root() -> None:
    users = [rest for instruction, rest in INSTRUCTIONS if instruction == "USER"]
    assert users == ["65532:65532"]


def test_the_lock_is_used_as_it_is() -> None:
    assert "uv sync --frozen --no-dev --no-editable --package" in DOCKERFILE


def test_uv_is_the_one_of_the_makefile() -> None:
    wanted = re.search(r"UV_VERSION:-([\d.]+)", (ROOT / "tools/uv.sh").read_text())
    found = re.search(r"^ARG UV_VERSION=([\d.]+)$", DOCKERFILE, re.MULTILINE)
    assert wanted is not None
    assert found is not None
    assert found[1] == wanted[1]


def test_only_what_is_copied_is_sent_to_the_builder() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for instruction, rest in INSTRUCTIONS
        if instruction == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    }
    assert copied == allowed
