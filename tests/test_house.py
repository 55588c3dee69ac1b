"""The house as a whole: what every package has, who may import what, and whether the documents tell the truth."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import yaml

from berth.bus.topology import TOPOLOGY
from berth.contracts import names
from berth.invariants import PROMISES
from berth.rules.scheduler_config import SchedulerConfig, read_scheduler_config
from berth.runtime.settings import ServiceSettings, variable_of

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(
    path.parent for pattern in ("proto", "libs/*", "services/*") for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
SERVICES = sorted(path.parent.name for path in ROOT.glob("services/*/pyproject.toml"))
LAYERS = ["shell", "reconciler", "views", "core"]
LAYERED = ["admission-webhook", "auditor", "device-inventory", "quota-manager", "reservation-manager", "slo-manager"]
"""Services that have these layers, and no module of another name beside them but those of `BESIDE`."""
SPECIALISTS = {
    "placement-solver": {"pacing", "rounds", "views"},
    "cluster-writer": {"wave_runner", "views"},
    "cluster-watcher": {"term", "reconciler"},
    "node-qos-enforcer": {"reconciler", "views"},
    "node-authenticator": set(),
    "yarn-operator": {"resource_manager", "views"},
    "recorder": {"views"},
}
"""The others, which have a loop of their own, and the layers that they have between shell and core."""
BESIDE = {"__init__", "__main__", "settings", "py.typed"}
INPUTS = {
    "admission-webhook": {"keys", "server"},
    "auditor": {"lists"},
    "quota-manager": {"configuration", "hooks", "supposing"},
}
"""What a service reads beside buckets."""
HEADINGS = ["Decides", "Reads", "Writes", "Knobs", "Metrics", "Failure modes"]
SKIPPED = {".git", ".venv", ".tools", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
TEXTS = {".py", ".md", ".yaml", ".yml", ".toml", ".conf", ".sh", ""}
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def files(*suffixes: str) -> Iterator[Path]:
    for folder, folders, found in os.walk(ROOT):
        folders[:] = sorted(set(folders) - SKIPPED)
        for name in sorted(set(found) - SKIPPED):
            path = Path(folder, name)
            if path.is_file() and path.suffix in suffixes:
                yield path


@cache
def sources(package: Path) -> list[Path]:
    return sorted(path for path in (package / "src").rglob("*.py"))


class Facts(NamedTuple):
    """What the tests below ask of a source file."""

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


# --- packages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_installed_with_all_that_it_imports(service: str) -> None:
    """An image holds what its service declares, and what that declares; a checkout holds everything."""
    owners = {module_of(path): (package, path) for package in PACKAGES for path in sources(package)}
    here = ROOT / "services" / service
    reached = {module for module, (package, _) in owners.items() if package == here}
    todo = list(reached)
    while todo:
        found = {name for name in facts(owners[todo.pop()][1]).imports_at_start if name in owners}
        found |= {name.rpartition(".")[0] for name in found} & set(owners)
        todo += found - reached
        reached |= found
    needed = {name_of(owners[module][0]) for module in reached}
    assert needed <= installed_with(here)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_is_whole(package: Path) -> None:
    project = tomllib.loads((package / "pyproject.toml").read_text())
    folder = package / "src" / project["tool"]["uv"]["build-backend"]["module-name"].replace(".", "/")
    assert (folder / "py.typed").is_file()
    assert facts(folder / "__init__.py").documented
    readme = (package / "README.md").read_text()
    assert readme.startswith(f"# {project['project']['name']}\n")
    assert 8 <= len(readme.splitlines()) <= 100, "two screens at most, and not empty"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_every_module_says_why_it_exists(package: Path) -> None:
    silent = [path.name for path in sources(package) if not facts(path).documented]
    assert not silent


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_the_parts_of_the_others(service: str) -> None:
    module = service.replace("-", "_")
    folder = ROOT / f"services/{service}/src/berth/{module}"
    assert {"settings.py", "shell.py", "__main__.py", "core", "py.typed"} <= {path.name for path in folder.iterdir()}
    project = tomllib.loads((ROOT / f"services/{service}/pyproject.toml").read_text())["project"]
    assert project["name"] == f"berth-{service}"
    assert (ROOT / f"tests/services/{service}").is_dir()


@pytest.mark.parametrize("service", LAYERED)
def test_a_service_has_the_layers(service: str) -> None:
    module = service.replace("-", "_")
    folder = ROOT / f"services/{service}/src/berth/{module}"
    modules = {path.name.removesuffix(".py") for path in folder.iterdir()} - {"__pycache__"}
    assert modules == {*LAYERS, *BESIDE} | INPUTS.get(service, set())
    classes = {
        layer: {
            node.name for node in ast.parse((folder / f"{layer}.py").read_text()).body if isinstance(node, ast.ClassDef)
        }
        for layer in ("shell", "reconciler")
    }
    assert classes["shell"] == {"Shell"}, "wiring alone"
    assert "Reconciler" in classes["reconciler"]
    assert (ROOT / f"tests/services/{service}/test_shell.py").is_file()


def test_every_service_has_a_place_in_the_house() -> None:
    assert sorted([*LAYERED, *SPECIALISTS]) == SERVICES
    specialised = {layer for layers in SPECIALISTS.values() for layer in layers} | set(LAYERS)
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = {each["name"]: each for each in config["tool"]["importlinter"]["contracts"]}
    found = contracts["Specialists stand between a shell and what it sees"]
    assert {layer.strip("()") for layer in found["layers"]} == specialised
    assert set(found["containers"]) == {f"berth.{service.replace('-', '_')}" for service in SPECIALISTS}


@pytest.mark.parametrize("service", SPECIALISTS)
def test_a_service_with_specialists_has_its_layers(service: str) -> None:
    folder = ROOT / f"services/{service}/src/berth/{service.replace('-', '_')}"
    modules = {path.name.removesuffix(".py") for path in folder.iterdir()}
    assert {"shell", "core", *SPECIALISTS[service]} <= modules
    assert {
        "pacing",
        "term",
        "rounds",
        "wave_runner",
        "reconciler",
        "resource_manager",
        "views",
    } & modules == SPECIALISTS[service]


def test_the_layers_are_contracts_of_the_linter() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = {each["name"]: each for each in config["tool"]["importlinter"]["contracts"]}
    layers = contracts["A service is a shell over a reconciler over views over a core"]
    modules = [f"berth.{service.replace('-', '_')}" for service in LAYERED]
    assert layers["layers"] == LAYERS
    assert set(layers["containers"]) == set(modules)
    pure = contracts["Reconcilers and views do no I/O, read no clock, draw no random numbers"]["source_modules"]
    assert set(pure) == {f"{module}.{layer}" for module in modules for layer in ("reconciler", "views")}


@pytest.mark.parametrize("service", SERVICES)
def test_the_readme_of_a_service_has_the_same_headings(service: str) -> None:
    readme = (ROOT / f"services/{service}/README.md").read_text()
    assert re.findall(r"^## (.+)$", readme, re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("service", SERVICES)
def test_the_readme_of_a_service_names_every_knob(service: str) -> None:
    settings = importlib.import_module(f"berth.{service.replace('-', '_')}.settings").Settings
    knobs = set(settings.__struct_fields__) - set(ServiceSettings.__struct_fields__)
    text = (ROOT / f"services/{service}/README.md").read_text()
    missing = [variable_of(knob) for knob in knobs if f"_{knob.upper()}`" not in text]
    assert not missing
    mentioned = set(re.findall(r"`(BERTH_[A-Z_]+)`", text))
    assert mentioned <= {*map(variable_of, settings.__struct_fields__), *(item.stream for item in TOPOLOGY)}


@pytest.mark.parametrize("service", SERVICES)
def test_the_readme_of_a_service_tells_the_defaults(service: str) -> None:
    settings = importlib.import_module(f"berth.{service.replace('-', '_')}.settings").Settings
    defaults = {variable_of(name): value for name, value in environment_defaults(settings).items()}
    text = (ROOT / f"services/{service}/README.md").read_text()
    for variables, told in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]+) \|", text, re.MULTILINE):
        knobs = [knob for knob in re.findall(r"`(\w+)`", variables) if knob in defaults]
        values = [value.strip(" `") for value in told.split(",")]
        if len(knobs) == len(values) and told.strip():
            # What is empty is explained in words; a number may have some behind it.
            wrong = [k for k, v in zip(knobs, values, strict=True) if defaults[k] and v.split(" ")[0] != defaults[k]]
            assert not wrong


def environment_defaults(settings: type[ServiceSettings]) -> dict[str, str]:
    """The defaults as people write them."""
    found = {}
    for field in msgspec.structs.fields(settings):
        value = field.default
        if isinstance(value, float):
            found[field.name] = f"{value:g}"
        elif isinstance(value, tuple):
            found[field.name] = ",".join(value)
        else:
            found[field.name] = str(value).lower()
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_has_a_sentence(service: str) -> None:
    settings = importlib.import_module(f"berth.{service.replace('-', '_')}.settings").Settings
    properties = msgspec.json.schema(settings)["$defs"]["Settings"]["properties"]
    assert not [name for name, field in properties.items() if not field.get("description")]


def test_the_common_settings_are_in_the_manual() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    assert not [field for field in ServiceSettings.__struct_fields__ if f"`{variable_of(field)}`" not in text]


# --- metrics ----------------------------------------------------------------------------------------------------------


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


# --- imports ----------------------------------------------------------------------------------------------------------


def test_only_telemetry_imports_the_opentelemetry_sdk() -> None:
    guilty = [
        path.relative_to(ROOT)
        for package in PACKAGES
        if package.name != "telemetry"
        for path in sources(package)
        if any(name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")) for name in facts(path).imports)
    ]
    assert not guilty


def test_the_import_contracts_cover_every_package() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = {
        tomllib.loads((package / "pyproject.toml").read_text())["tool"]["uv"]["build-backend"]["module-name"]
        for package in PACKAGES
    }
    contracts = {each["name"]: each for each in config["tool"]["importlinter"]["contracts"]}
    services = {f"berth.{service.replace('-', '_')}" for service in SERVICES}
    assert set(config["tool"]["importlinter"]["root_packages"]) == modules
    assert set(contracts["Services never import each other"]["modules"]) == services
    assert services <= set(contracts["Libraries never import services"]["forbidden_modules"])
    cores = set(contracts["Cores and pure libraries import no I/O, no clock, no randomness"]["source_modules"])
    assert {f"{service}.core" for service in services} <= cores
    for owner, name in (
        ("berth.bus", "Only berth.bus imports nats"),
        ("berth.kube", "Only berth.kube imports kubernetes_asyncio"),
        ("berth.kubelet", "Only berth.kubelet imports grpc"),
    ):
        assert set(contracts[name]["source_modules"]) == modules - {owner}


# --- documents --------------------------------------------------------------------------------------------------------


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


def test_every_rule_that_the_code_names_is_explained() -> None:
    explained = set(re.findall(r"^\| (R\d+) \|", (ROOT / "docs/transaction.md").read_text(), re.MULTILINE))
    assert explained == {f"R{number}" for number in range(1, 20)}
    used = {
        rule for package in PACKAGES for path in sources(package) for rule in re.findall(r"\bR\d+\b", path.read_text())
    }
    assert used
    assert used <= explained


def test_the_guarantees_are_those_that_are_checked() -> None:
    text = (ROOT / "docs/guarantees.md").read_text()
    rows = {
        name: (sentence, how)
        for name, sentence, how in re.findall(r"^\| (I\w+) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    }
    checked = {name for name, (_, how) in rows.items() if how.startswith("yes")}
    assert checked == set(PROMISES)
    assert {name: told.partition("`")[2].partition("`")[0] for name, (told, _) in rows.items() if name in checked} == {
        promise.name: promise.title for promise in PROMISES.values()
    }


def test_each_row_of_the_track_record_is_held_by_a_test() -> None:
    table = (ROOT / "tests/simulation/TRACK_RECORD.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")][2:]
    assert rows
    for row in rows:
        assert len(row) == 5, row[0]
        held_by = re.findall(r"`([\w/-]+)::(\w+)`", row[-1])
        assert held_by, row[0]
        for file, name in held_by:
            folders = [ROOT / "tests" / each for each in ("libs", "services", "")]
            there = [path for each in folders if (path := each / f"{file}.py").exists()]
            assert len(there) == 1, f"{file}: of {row[0]}"
            assert f"def test_{name}(" in there[0].read_text(), f"{file}::{name}: of {row[0]}"


def test_the_life_of_a_pod_names_functions_that_exist() -> None:
    text = (ROOT / "docs/life-of-a-pod.md").read_text()
    hops = re.findall(r"`([\w/]+\.py):(\w+)`", text)
    assert len(hops) > 20
    for file, function in hops:
        found = [*ROOT.glob(f"services/*/src/berth/{file}"), *ROOT.glob(f"libs/*/src/berth/{file}")]
        assert len(found) == 1, file
        assert re.search(rf"def {function}\b", found[0].read_text()), f"{file}:{function}"


def test_what_the_readme_calls_unsupported_is_refused() -> None:
    """The table of what does not work yet follows the solver's list."""
    from berth.placement_solver.core import classes

    text = (ROOT / "README.md").read_text()
    assert bool(classes.UNSUPPORTED_RESOURCES) == (f"`{classes.UNSUPPORTED_RESOURCES}*`" in text)


def test_the_changelog_is_open() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "\n## [Unreleased]\n" in text
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## [{version}]" in text


def test_every_target_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    explained = set(re.findall(r"^([a-z0-9-]+):.*## \S", makefile, re.MULTILINE))
    assert targets() == explained


# --- nothing from elsewhere -------------------------------------------------------------------------------------------

MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:home|root|Users|work)/\w")
LEFTOVERS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|WIP)\b")


def test_no_file_names_a_machine_or_leaves_work_behind() -> None:
    guilty = []
    for path in files(*TEXTS):
        if path == Path(__file__) or path.name in ("LICENSE", "uv.lock"):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        guilty += [
            f"{path.relative_to(ROOT)}: {match[0]}"
            for rule in (MACHINE_PATHS, LEFTOVERS)
            for match in rule.finditer(text)
        ]
    assert not guilty
