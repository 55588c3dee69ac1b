"""The manifests against the code: settings, rights, selectors, restrictions."""

from __future__ import annotations

import importlib.util
import json
import os
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

from berth.cluster_watcher.kinds import KINDS
from berth.cluster_writer.commands import WRITABLE
from berth.kube import resources
from berth.kube.resources import Resource
from berth.runtime.settings import load_settings
from berth.testing.nats_server import find_server

ROOT = Path(__file__).parents[2]
K8S = ROOT / "k8s"
OVERLAY = K8S / "overlays/single-node"
READS = {"get", "list", "watch"}
Json = dict[str, Any]


def resolve(folder: Path) -> Iterator[Json]:
    """Every object of a kustomization, as its files say it."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for entry in [*kustomization.get("resources", []), *kustomization.get("components", [])]:
        target = (folder / entry).resolve()
        assert target.exists(), f"{folder}: {entry} is not there"
        if target.is_dir():
            yield from resolve(target)
        else:
            yield from (each for each in yaml.safe_load_all(target.read_text()) if each)


OBJECTS = list(resolve(OVERLAY))
WORKLOADS = [each for each in OBJECTS if each["kind"] in ("Deployment", "DaemonSet", "StatefulSet")]


def of_kind(kind: str) -> list[Json]:
    return [each for each in OBJECTS if each["kind"] == kind]


def pod_of(workload: Json) -> Json:
    spec = workload["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def name_of(each: Json) -> str:
    return str(each["metadata"]["name"])


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_every_service_is_deployed(house: Any) -> None:
    assert {name_of(each) for each in WORKLOADS} == {*house.services, "nats"}


def test_every_file_belongs_to_a_kustomization() -> None:
    named = {K8S / "components/nats/nats.conf", K8S / "components/nats/users.conf"}
    for kustomization in K8S.rglob("kustomization.yaml"):
        named.add(kustomization)
        listed = yaml.safe_load(kustomization.read_text()).get("resources", [])
        named |= {(kustomization.parent / entry).resolve() for entry in listed}
    assert {path for path in K8S.rglob("*") if path.is_file()} <= named


def test_names_are_unique() -> None:
    identities = [(each["kind"], each["metadata"].get("namespace", ""), name_of(each)) for each in OBJECTS]
    assert len(identities) == len(set(identities))


def test_kustomize_accepts_it() -> None:
    kubectl = shutil.which("kubectl") or shutil.which("kustomize")
    if kubectl is None:
        pytest.skip("neither kubectl nor kustomize here")
    verb = "build" if kubectl.endswith("kustomize") else "kustomize"
    done = subprocess.run([kubectl, verb, str(OVERLAY)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert len(built) == len(OBJECTS) + 1  # and the generated ConfigMap of the bus
    images = {
        container["image"]
        for each in built
        if each["kind"] in ("Deployment", "DaemonSet", "StatefulSet")
        for container in pod_of(each)["containers"]
    }
    assert all(":" in image for image in images), images


# --- settings ---------------------------------------------------------------------------------------------------------


def test_the_common_settings_are_settings(house: Any) -> None:
    common = next(each for each in of_kind("ConfigMap") if name_of(each) == "berth")["data"]
    known = set().union(*(house.variables(service) for service in house.services))
    assert set(common) <= known
    for service in house.services:
        load_settings(house.settings(service), common)


def test_every_variable_is_a_setting_of_its_service(house: Any) -> None:
    common = next(each for each in of_kind("ConfigMap") if name_of(each) == "berth")["data"]
    for workload in WORKLOADS:
        name = name_of(workload)
        if name == "nats":
            continue
        (container,) = pod_of(workload)["containers"]
        environment = {each["name"]: each.get("value", "from-the-pod") for each in container["env"]}
        assert set(environment) <= house.variables(name), name
        takes_common = any("configMapRef" in source for source in container.get("envFrom", []))
        settings = load_settings(house.settings(name), {**(common if takes_common else {}), **environment})
        assert settings.nats_user == name
        assert settings.http_host == "0.0.0.0"  # probes come from outside the pod
        (port,) = container["ports"]
        assert settings.http_port == port["containerPort"]
        assert settings.nats_url == "nats://nats.berth-system.svc:4222"
        assert pod_of(workload)["terminationGracePeriodSeconds"] > settings.drain_s + 5


def test_the_agent_is_told_its_node_and_the_nodes_groups() -> None:
    agent = next(each for each in WORKLOADS if name_of(each) == "node-qos-enforcer")
    (container,) = pod_of(agent)["containers"]
    environment = {each["name"]: each for each in container["env"]}
    assert environment["BERTH_NODE_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    mount = next(each for each in container["volumeMounts"] if each["name"] == "cgroup")
    assert mount["mountPath"] == environment["BERTH_CGROUP_ROOT"]["value"]
    assert mount["readOnly"] is True


# --- what pods may do -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_pods_are_restricted(workload: Json) -> None:
    pod = pod_of(workload)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
    assert pod["priorityClassName"].startswith("system-")


def test_only_the_agent_mounts_the_host() -> None:
    paths = {
        name_of(workload): [
            volume["hostPath"]["path"] for volume in pod_of(workload).get("volumes", []) if "hostPath" in volume
        ]
        for workload in WORKLOADS
    }
    assert paths.pop("node-qos-enforcer") == ["/sys/fs/cgroup"]
    assert not any(paths.values())


def test_probes_ask_pages_that_are_served() -> None:
    served = (ROOT / "libs/telemetry/src/berth/telemetry/http.py").read_text()
    for workload in WORKLOADS:
        for container in pod_of(workload)["containers"]:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if "httpGet" in container[probe]:
                    assert f'web.get("{container[probe]["httpGet"]["path"]}"' in served


def test_selectors_find_their_pods() -> None:
    for workload in WORKLOADS:
        wanted = workload["spec"]["selector"]["matchLabels"]
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert wanted.items() <= labels.items()
    everywhere = [(each["metadata"]["namespace"], each["spec"]["template"]["metadata"]["labels"]) for each in WORKLOADS]
    for each in [*of_kind("PodDisruptionBudget"), *of_kind("Service"), *of_kind("NetworkPolicy")]:
        spec = each["spec"]
        wanted = spec.get("podSelector", spec.get("selector", {}))
        wanted = wanted.get("matchLabels", {}) if "podSelector" in spec or "maxUnavailable" in spec else wanted
        home = each["metadata"]["namespace"]
        assert any(space == home and wanted.items() <= labels.items() for space, labels in everywhere), name_of(each)


def test_every_control_service_has_a_budget(house: Any) -> None:
    deployed = {name_of(each) for each in of_kind("Deployment")}
    assert {name_of(each) for each in of_kind("PodDisruptionBudget")} == deployed


# --- rights -----------------------------------------------------------------------------------------------------------


def rules_of(service: str) -> dict[tuple[str, str], set[str]]:
    """(group, resource) -> verbs, over every role that a service is bound to."""
    found: dict[tuple[str, str], set[str]] = {}
    for binding in [*of_kind("ClusterRoleBinding"), *of_kind("RoleBinding")]:
        if any(subject["name"] == service for subject in binding["subjects"]):
            role = next(
                each for each in of_kind(binding["roleRef"]["kind"]) if name_of(each) == binding["roleRef"]["name"]
            )
            for rule in role["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def key(resource: Resource, subresource: str = "") -> tuple[str, str]:
    return resource.group, f"{resource.plural}/{subresource}" if subresource else resource.plural


def test_the_watcher_reads_what_state_shows_and_nothing_else() -> None:
    assert rules_of("cluster-watcher") == {key(kind.resource): {"list", "watch"} for kind in KINDS}


def test_the_writer_has_the_rights_for_what_it_calls() -> None:
    wanted = {
        key(resources.PODS): {"get", "list", "patch"},
        key(resources.PODS, "binding"): {"create"},
        key(resources.PODS, "eviction"): {"create"},
        key(resources.PODS, "status"): {"patch"},
        key(resources.NODES): {"patch"},
        key(resources.NODES, "status"): {"patch"},
        key(resources.EVENTS): {"create"},
        key(resources.LEASES): {"create", "get", "patch"},
        key(resources.RESERVATIONS): {"get", "list", "patch"},
        key(resources.RESERVATIONS, "status"): {"patch"},
    }
    for resource in WRITABLE.values():
        wanted.setdefault(key(resource), {"patch"})
        wanted.setdefault(key(resource, "status"), {"patch"})
    assert rules_of("cluster-writer") == wanted


def test_the_writer_calls_nothing_else() -> None:
    """The kinds and calls that appear in its source are those that the table above covers."""
    text = "\n".join(path.read_text() for path in (ROOT / "services/cluster-writer/src").rglob("*.py"))
    used = {getattr(resources, name) for name in set(re.findall(r"resources\.([A-Z_]+)\b", text))}
    granted = {(group, resource.partition("/")[0]) for group, resource in rules_of("cluster-writer")}
    assert {key(resource) for resource in used} | {key(resources.LEASES)} == granted
    assert set(re.findall(r"_api\.(\w+)\(", text)) == {"bind", "create", "evict", "get", "patch"}


def test_nobody_else_has_any_right(house: Any) -> None:
    for service in house.services:
        if service not in ("cluster-watcher", "cluster-writer"):
            assert rules_of(service) == {}
    bound = [subject["name"] for each in of_kind("ClusterRoleBinding") for subject in each["subjects"]]
    assert sorted(bound) == ["cluster-watcher", "cluster-writer"]


def test_only_the_writer_writes_and_nobody_reads_secrets() -> None:
    for role in [*of_kind("ClusterRole"), *of_kind("Role")]:
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "secrets" not in rule["resources"]
            if "cluster-writer" not in name_of(role):
                assert set(rule["verbs"]) <= READS


def test_tokens_are_mounted_where_they_are_used() -> None:
    for workload in WORKLOADS:
        uses = name_of(workload) in ("cluster-watcher", "cluster-writer")
        assert pod_of(workload)["automountServiceAccountToken"] is uses
        account = pod_of(workload)["serviceAccountName"]
        assert any(name_of(each) == account for each in of_kind("ServiceAccount"))


def test_the_guard_of_the_attempt_names_the_writer_and_the_annotations() -> None:
    from berth.contracts import names

    (policy,) = of_kind("ValidatingAdmissionPolicy")
    (validation,) = policy["spec"]["validations"]
    assert f"'{names.ANNOTATION_ATTEMPT}'" in validation["expression"]
    assert f"'{names.ANNOTATION_PLAN}'" in validation["expression"]
    (condition,) = policy["spec"]["matchConditions"]
    assert "'system:serviceaccount:berth-system:cluster-writer'" in condition["expression"]


# --- the bus ----------------------------------------------------------------------------------------------------------


def test_passwords_of_every_user_reach_server_and_service() -> None:
    permissions, passwords = tool("nats_permissions"), tool("nats_passwords")
    users = {*permissions.PARTS, permissions.READER}
    assert set(passwords.USERS) == users
    secrets = [each for each in passwords.manifests(dict.fromkeys(users, "p")) if each["kind"] == "Secret"]
    keys = {(each["metadata"]["namespace"], user) for each in secrets for user in each["stringData"]}
    nats = next(each for each in WORKLOADS if name_of(each) == "nats")
    environment = {each["name"]: each for each in pod_of(nats)["containers"][0]["env"]}
    for user in users:
        reference = environment[permissions.password_variable(user)]["valueFrom"]["secretKeyRef"]
        assert reference == {"name": passwords.SECRET, "key": user}
        assert ("berth-system", user) in keys
    for workload in WORKLOADS:
        for volume in pod_of(workload).get("volumes", []):
            if "secret" in volume:
                assert volume["secret"]["secretName"] == passwords.SECRET
                (item,) = volume["secret"]["items"]
                assert item["key"] == name_of(workload)
                assert (workload["metadata"]["namespace"], item["key"]) in keys


def test_the_server_accepts_its_configuration(tmp_path: Path) -> None:
    permissions = tool("nats_permissions")
    for file in ("nats.conf", "users.conf"):
        shutil.copy(K8S / "components/nats" / file, tmp_path)
    variables = {permissions.password_variable(user): "p1" for user in (*permissions.PARTS, permissions.READER)}
    command = [find_server(), "-t", "-c", str(tmp_path / "nats.conf")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **variables, "POD_NAME": "nats-0"}
    )
    assert done.returncode == 0, done.stderr
    compose = subprocess.run(
        [find_server(), "-t", "-c", str(ROOT / "compose.nats.conf")], capture_output=True, check=False
    )
    assert compose.returncode == 0, compose.stderr


def test_passwords_are_never_numbers_to_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    passwords = tool("nats_passwords")
    assert passwords.main() == 0
    printed = json.loads(capsys.readouterr().out)
    values = [value for each in printed["items"] for value in each.get("stringData", {}).values()]
    assert all(re.fullmatch(r"p[0-9a-f]{48}", value) for value in values)
    assert len(set(values)) == len(passwords.USERS)


def test_no_password_is_kept_here() -> None:
    assert not of_kind("Secret")
    assert not any("secretGenerator" in path.read_text() for path in K8S.rglob("kustomization.yaml"))
