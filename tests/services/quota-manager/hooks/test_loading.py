"""Hooks among the installed packages, by their entry points."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.services.worlds.quota.licences import SEAT

from berth.quota_manager.hooks.loading import HookError, load_hooks, named_hook
from berth.rules.quota_hooks.seam import ENTRY_POINTS

LICENCES = "tests.services.worlds.quota.licences:Licences"


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    """A folder of packages that are installed, as pip leaves them."""
    info = tmp_path / "berth_licences-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: berth-licences\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nlicences = {LICENCES}\nbroken = no.such.module:Hook\n")
    sys.path.insert(0, str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    sys.path.remove(str(tmp_path))
    importlib.invalidate_caches()


def test_an_installed_hook_is_found_by_name(installed: Path) -> None:
    (hook,) = load_hooks(["licences", "licences"])
    assert hook.name == "licences"
    assert hook.functions.keys() == {"charges", "refuses", "shows"}
    assert hook.resources == {SEAT}


def test_none_is_asked_that_is_not_named(installed: Path) -> None:
    assert load_hooks([]) == []


@pytest.mark.parametrize("name", ["absent", "broken"])
def test_who_cannot_be_loaded_is_named(installed: Path, name: str) -> None:
    with pytest.raises(HookError, match=f"hook {name}: "):
        load_hooks([name])


def test_two_hooks_do_not_share_a_resource() -> None:
    points = [EntryPoint(name, LICENCES, ENTRY_POINTS) for name in ("a", "b")]
    with pytest.raises(HookError, match=f"hook b: hook a has the resource {SEAT} already"):
        load_hooks(["a", "b"], lambda: points)
    with pytest.raises(HookError, match="2 installed packages"):
        load_hooks(["a"], lambda: [points[0], points[0]])


@pytest.mark.parametrize(
    "resources",
    ["licences.example.com/seat", 7, ["seat"], ["cpu"], ["example.kubernetes.io/x"], ["k8s.io/x"], [7], [""],
     ["koordinator.sh/gpu-core"], ["nvidia.com/gpu"], ["a.example/" + "x" * 64], ["A.example/x"],
     [f"a.example/x{n}" for n in range(17)], []],
    ids=lambda value: ascii(value)[:30],
)  # fmt: skip
def test_resources_are_names_of_its_own(resources: Any) -> None:
    with pytest.raises(HookError, match="hook h: "):
        named_hook("h", SimpleNamespace(charges=lambda pod: {}, resources=resources))


def test_an_object_without_a_function_is_no_hook() -> None:
    with pytest.raises(HookError, match="has none of charges, refuses, shows"):
        named_hook("h", SimpleNamespace(charges=7))
    assert named_hook("h", SimpleNamespace(refuses=lambda pod, group: "")).resources == frozenset()
