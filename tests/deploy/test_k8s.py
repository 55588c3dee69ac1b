"""The manifests against the code: settings, selectors, restrictions."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.deploy.manifests import (
    K8S,
    OBJECTS,
    OPTIONAL,
    OVERLAYS,
    ROOT,
    RUNNING,
    WORKLOADS,
    Json,
    built,
    name_of,
    of_kind,
    pod_of,
    workload_named,
)

from berth.runtime.settings import load_settings


def test_every_service_is_deployed(house: Any) -> None:
    assert {name_of(each) for each in WORKLOADS} == {*house.services, "nats"}


def test_every_file_belongs_to_a_kustomization() -> None:
    named = {K8S / "README.md", *(K8S / "samples").iterdir()}  # samples are applied by hand
    for kustomization in K8S.rglob("kustomization.yaml"):
        named.add(kustomization)
        content = yaml.safe_load(kustomization.read_text())
        listed = [*content.get("resources", [])]
        listed += [each["path"] for each in content.get("patches", []) if "path" in each]
        listed += [file for each in content.get("configMapGenerator", []) for file in each["files"]]
        named |= {(kustomization.parent / entry).resolve() for entry in listed}
    assert {path for path in K8S.rglob("*") if path.is_file()} <= named


def test_names_are_unique() -> None:
    identities = [(each["kind"], each["metadata"].get("namespace", ""), name_of(each)) for each in OBJECTS]
    assert len(identities) == len(set(identities))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_names_the_version_of_every_image(overlay: str) -> None:
    images = {
        container["image"]
        for each in built(overlay)
        if each["kind"] in RUNNING
        for container in pod_of(each)["containers"]
    }
    assert all(":" in image for image in images), images


def test_production_has_two_of_everything_and_three_of_the_bus(house: Any) -> None:
    objects = built("production")
    copies = {name_of(each): each["spec"]["replicas"] for each in objects if "replicas" in each.get("spec", {})}
    deployed = {name_of(each) for each in of_kind("Deployment")}
    deployed -= {name_of(each) for each in OPTIONAL}
    assert copies == dict.fromkeys(deployed, 2) | {"nats": 3}
    budgets = {name_of(each) for each in objects if each["kind"] == "PodDisruptionBudget"}
    assert budgets == deployed | {"nats"}
    (common,) = [each["data"] for each in objects if each["kind"] == "ConfigMap" and name_of(each) == "berth"]
    agent = next(each for each in objects if name_of(each) == "node-qos-enforcer" and each["kind"] == "DaemonSet")
    (container,) = pod_of(agent)["containers"]
    told = {each["name"]: each.get("value") for each in container["env"]}
    for source in (common, told):
        assert source["BERTH_NATS_URL"] == ",".join(f"tls://nats-{i}.nats.berth-system.svc:4222" for i in range(3))
    for service in house.services:
        if service in deployed:
            assert load_settings(house.settings(service), common).nats_replicas == 3


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
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        assert ports.pop("http") == settings.http_port
        assert ports == ({"webhook": settings.webhook_port} if name == "admission-webhook" else {})
        assert settings.nats_url == "tls://nats.berth-system.svc:4222"
        (mount,) = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "bus"]
        sources = next(each for each in pod_of(workload)["volumes"] if each["name"] == "bus")["projected"]["sources"]
        items = [item for source in sources for each in source.values() for item in each.get("items", [each])]
        files = [f"{mount}/{item['path']}" for item in items if item["path"] != "signing-seed"]
        assert [settings.nats_password_file, settings.nats_ca_file] == files
        assert pod_of(workload)["terminationGracePeriodSeconds"] > settings.drain_s + 5


def test_the_agent_is_told_its_node_and_the_nodes_groups() -> None:
    (container,) = pod_of(workload_named("node-qos-enforcer"))["containers"]
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
    (ours,) = [name_of(each) for each in of_kind("PriorityClass") if name_of(each).startswith("berth-")]
    assert pod["priorityClassName"] == ("system-node-critical" if workload["kind"] == "DaemonSet" else ours)


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
