"""The manifests as objects, and the tools that make what is not kept in them."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
K8S = ROOT / "k8s"
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir() if path.is_dir())
RUNNING = ("Deployment", "DaemonSet", "StatefulSet")
Json = dict[str, Any]


def resolve(folder: Path) -> Iterator[Json]:
    """Every object of a kustomization, as its files say it: without patches."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for entry in [*kustomization.get("resources", []), *kustomization.get("components", [])]:
        target = (folder / entry).resolve()
        assert target.exists(), f"{folder}: {entry} is not there"
        if target.is_dir():
            yield from resolve(target)
        else:
            yield from (each for each in yaml.load_all(target.read_text(), yaml.CSafeLoader) if each)


def built(overlay: str) -> list[Json]:
    """What kustomize makes of an overlay."""
    kubectl = shutil.which("kubectl") or shutil.which("kustomize")
    if kubectl is None:
        pytest.skip("neither kubectl nor kustomize here")
    verb = "build" if kubectl.endswith("kustomize") else "kustomize"
    command = [kubectl, verb, str(K8S / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each]


OPTIONAL = [each for part in ("components/yarn", "components/recorder") for each in resolve(K8S / part)]
"""What no overlay has."""
OBJECTS = [*resolve(K8S / "overlays/single-node"), *OPTIONAL]
"""The smallest overlay, and what is optional."""
WORKLOADS = [each for each in OBJECTS if each["kind"] in RUNNING]
CRDS: dict[str, Json] = {path.stem: json.loads(path.read_text()) for path in (K8S / "crds").glob("*.json")}


def of_kind(kind: str) -> list[Json]:
    return [each for each in OBJECTS if each["kind"] == kind]


def workload_named(name: str) -> Json:
    return next(each for each in WORKLOADS if name_of(each) == name)


def pod_of(workload: Json) -> Json:
    spec = workload["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def name_of(each: Json) -> str:
    return str(each["metadata"]["name"])


def tool(name: str) -> ModuleType:
    """A program of `tools/` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


AGENT = "node-qos-enforcer"
OTHER_AGENT = "node-qos-enforcer-of-another-node"
NODES_OF_AGENTS = {AGENT: "n1", OTHER_AGENT: "n2"}


def users_conf(password: str) -> str:
    """The users of the bus, all with this password; the agents of two nodes are users, too, with their rights."""
    return re.sub(r"\$NATS_PASSWORD_\w+", password, tool("nats_permissions").render(NODES_OF_AGENTS))


def shipped_users_conf(password: str, issuer: str) -> str:
    """The users of the bus as shipped, where agents are let in by node-authenticator, whose public key this is."""
    text = (K8S / "components/nats/users.conf").read_text().replace("$NATS_LOGIN_ISSUER", issuer)
    return re.sub(r"\$NATS_PASSWORD_\w+", password, text)
