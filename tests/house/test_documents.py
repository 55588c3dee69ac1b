"""What documents show can be done: commands, links, variables, samples."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import tomllib
from functools import cache
from itertools import dropwhile
from pathlib import Path

import pytest
import yaml
from tests.house.survey import DOCUMENTS, ROOT, SERVICES, files

from berth.bus.topology import TOPOLOGY
from berth.contracts import names
from berth.rules.scheduler_config import SchedulerConfig, read_scheduler_config
from berth.runtime.settings import ServiceSettings, variable_of


@cache
def targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@cache
def commands() -> set[str]:
    """The commands of the command line, from its source: importing it would start nothing, but is slow."""
    tree = ast.parse((ROOT / "libs/cli/src/berth/cli/app.py").read_text())
    decorated = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any("app.command" in ast.unparse(each) for each in node.decorator_list)
    }
    named = {
        re.split(r"[.:]", ast.unparse(call.args[0]).strip("'"))[-1]
        for node in tree.body
        if isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call)
        if ast.unparse(call.func) == "app.command" and call.args
    }
    return {name.replace("_", "-") for name in decorated | named}


def blocks(path: Path, language: str) -> list[str]:
    """Fenced blocks of a language; their indentation is that of the list they may stand in."""
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


def lines_of_shell(path: Path) -> list[list[str]]:
    return [
        [word.removeprefix(".venv/bin/") for word in words]
        for block in blocks(path, "sh")
        for line in block.splitlines()
        if (words := list(dropwhile(re.compile(r"[A-Z_]+=").match, shlex.split(line, comments=True))))
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_in_documents_exist(path: Path) -> None:
    for words in lines_of_shell(path):
        if words[0] == "make":
            wanted = [word for word in words[1:] if "=" not in word]
            assert set(wanted) <= targets(), words
        elif "berth" in words[:3]:
            command = words[words.index("berth") + 1]
            assert command in commands(), words
        else:
            known = {"apt-get", "kubectl", "docker", "dockerd", "python", "python3", "nats", "curl", "export"}
            assert words[0] in known or (ROOT / words[0]).is_file(), words
        for word in words:
            if re.fullmatch(r"(tools|k8s|docs)/[\w./-]+", word):
                assert (ROOT / word).exists(), word
    for target in re.findall(r"`make ([a-z0-9-]+)", path.read_text()):
        assert target in targets(), target
    for command in re.findall(r"`(?:uv run )?berth ([a-z][a-z-]*)", path.read_text()):
        assert command in commands(), command


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if not target.startswith("https://"):
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_variables_in_documents_are_settings(path: Path) -> None:
    known = {variable_of(field) for field in ServiceSettings.__struct_fields__}
    for service in SERVICES:
        settings = importlib.import_module(f"berth.{service.replace('-', '_')}.settings").Settings
        known |= {variable_of(field) for field in settings.__struct_fields__}
    known |= {item.stream for item in TOPOLOGY} | {"BERTH_TRACE_DIR", "BERTH_TAG"}
    assert set(re.findall(r"\bBERTH_[A-Z_]*[A-Z]\b", path.read_text())) <= known


def test_python_samples_compile() -> None:
    samples = [block for path in DOCUMENTS for block in blocks(path, "python")]
    assert samples
    for sample in samples:
        compile(sample, "sample", "exec")


def test_manifests_in_documents_use_names_that_are_known() -> None:
    known = {value for name, value in vars(names).items() if name.isupper()}
    manifests = [yaml.safe_load(block) for path in DOCUMENTS for block in blocks(path, "yaml")]
    pods = [manifest for manifest in manifests if manifest["kind"] == "Pod"]
    kinds = {each["kind"] for each in manifests}
    assert kinds <= {"Pod", "ConfigMap", "KubeSchedulerConfiguration", "ReservationSchedule"}
    assert pods
    for manifest in pods:
        assert manifest["spec"]["schedulerName"] == names.SCHEDULER_NAME
        for container in manifest["spec"]["containers"]:
            assert set(container["resources"]["limits"]) <= known
        assert set(manifest["metadata"].get("labels", {})) <= known


def test_configurations_in_documents_can_be_read() -> None:
    texts = [block for path in DOCUMENTS for block in blocks(path, "yaml") if "KubeSchedulerConfiguration" in block]
    assert texts
    for text in texts:
        assert isinstance(read_scheduler_config(text), SchedulerConfig)


def test_documents_that_the_code_names_are_there() -> None:
    for path in files(".py", ".md", ".toml"):
        for name in re.findall(r"\bdocs/[\w./-]+\.md\b", path.read_text()):
            assert (ROOT / name).is_file(), f"{path.relative_to(ROOT)}: {name}"


def test_the_changelog_is_open() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "\n## [Unreleased]\n" in text
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## [{version}]" in text


def test_every_target_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    explained = set(re.findall(r"^([a-z0-9-]+):.*## \S", makefile, re.MULTILINE))
    assert targets() == explained
