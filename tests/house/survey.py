"""Where everything of the house is: packages, their sources, documents, and what a source file says of itself."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(
    path.parent for pattern in ("proto", "libs/*", "services/*") for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
SERVICES = sorted(path.parent.name for path in ROOT.glob("services/*/pyproject.toml"))
SKIPPED = {".git", ".venv", ".tools", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
TEXTS = {".py", ".md", ".yaml", ".yml", ".toml", ".conf", ".sh", ""}
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def files(*suffixes: str) -> Iterator[Path]:
    """Everything that is kept with the sources and has one of these endings."""
    for folder, folders, found in os.walk(ROOT):
        folders[:] = sorted(set(folders) - SKIPPED)
        for name in sorted(set(found) - SKIPPED):
            path = Path(folder, name)
            if path.is_file() and path.suffix in suffixes:
                yield path


@cache
def sources(package: Path) -> list[Path]:
    """The modules of a package."""
    return sorted(path for path in (package / "src").rglob("*.py"))


class Facts(NamedTuple):
    """What the tests ask of a source file."""

    documented: bool
    imports: frozenset[str]
    imports_at_start: frozenset[str]
    """Those that are imported with the module: neither for types alone nor in a function."""
    metrics: frozenset[str]
    """The names of the metrics that it makes."""


@cache
def facts(path: Path) -> Facts:
    """Each file is parsed once, and its tree is not kept: all of them together are large."""
    tree = ast.parse(path.read_text())
    return Facts(
        documented=bool(ast.get_docstring(tree)),
        imports=imports_of(ast.walk(tree)),
        imports_at_start=imports_of(at_start(tree)),
        metrics=frozenset(filter(None, map(metric_of, ast.walk(tree)))),
    )


def imports_of(nodes: Iterable[ast.AST]) -> frozenset[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def at_start(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.If):
            yield from at_start(child)


def metric_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        maker = getattr(node.func, "attr", getattr(node.func, "id", ""))
        name = str(node.args[0].value)
        if maker.lower() in {"counter", "gauge", "histogram", "collected_gauge"} and name.startswith("berth_"):
            return name
    return None


def module_of(path: Path) -> str:
    """The name by which a source file is imported."""
    parts = path.with_suffix("").parts
    return ".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__")


@cache
def name_of(package: Path) -> str:
    """The name under which it is installed."""
    return str(tomllib.loads((package / "pyproject.toml").read_text())["project"]["name"])


def installed_with(package: Path) -> set[str]:
    """Names of this repository's packages that come along with one."""
    folders = {name_of(each): each for each in PACKAGES}
    found, todo = set(), [name_of(package)]
    while todo:
        name = todo.pop()
        if name in folders and name not in found:
            found.add(name)
            declared = tomllib.loads((folders[name] / "pyproject.toml").read_text())["project"]["dependencies"]
            todo += [re.split(r"[^A-Za-z0-9-]", each)[0] for each in declared]
    return found
