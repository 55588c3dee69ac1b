"""What the parts of `inside` give the node agent: settings that it has, each right argued, no more than it needs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.deploy.manifests import AGENT, K8S

from berth.runtime.settings import load_settings

FOLDER = K8S / "components/inside"
PARTS = ("reports", "containers", "podresources")
OF_NVIDIAS_RUNTIME = {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}


def patch(part: str) -> dict[str, Any]:
    (found,) = yaml.safe_load_all((FOLDER / part / "agent.yaml").read_text())
    return dict(found["spec"]["template"]["spec"])


def env_of(part: str) -> dict[str, str]:
    (container,) = patch(part)["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def mounts_of(part: str) -> dict[str, dict[str, Any]]:
    (container,) = patch(part)["containers"]
    return {each["name"]: each for each in container["volumeMounts"]}


def test_the_whole_is_its_parts() -> None:
    assert tuple(yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["components"]) == PARTS


@pytest.mark.parametrize("part", PARTS)
def test_what_the_agent_is_told_are_settings_of_its_own(house: Any, part: str) -> None:
    told = env_of(part)
    assert set(told) - OF_NVIDIAS_RUNTIME <= house.variables(AGENT)
    settings = load_settings(house.settings(AGENT), told)
    mounts = {each["mountPath"] for each in mounts_of(part).values()}
    for path in (settings.podresources_socket, settings.podresources_proxy, settings.nri_socket):
        assert not path or path.rpartition("/")[0] in mounts


@pytest.mark.parametrize("part", PARTS)
def test_every_right_is_argued_and_none_is_a_privilege(part: str) -> None:
    pod = patch(part)
    (container,) = pod["containers"]
    assert "securityContext" not in container
    assert set(pod.get("securityContext", {})) <= {"runAsNonRoot", "runAsUser", "runAsGroup"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "automountServiceAccountToken"} & set(pod)
    lines = (FOLDER / part / "agent.yaml").read_text().splitlines()
    entries = [at for at, line in enumerate(lines) if line.strip().startswith(("- {name", "securityContext:"))]
    unargued = [
        lines[at]
        for at in entries
        if not any(lines[near].strip().startswith(("#", "- {name")) for near in (at - 1, at + 1))
    ]
    assert entries
    assert unargued == []


def test_who_wants_reports_alone_can_change_nothing_on_the_node() -> None:
    told, mounts = env_of("reports"), mounts_of("reports")
    assert told["BERTH_DEVICES"] == told["BERTH_CPUS"] == "true"
    assert "BERTH_NRI_SOCKET" not in told
    assert all(each["readOnly"] for each in mounts.values())
    assert set(mounts) == {"device-files", "kubelet-config", "pod-resources"}
    assert told["BERTH_KUBELET_CONFIG_FILE"] == mounts["kubelet-config"]["mountPath"]


@pytest.mark.parametrize("part", PARTS)
def test_kubelets_folder_with_the_secrets_of_pods_is_not_mounted(part: str) -> None:
    paths = {each["hostPath"]["path"] for each in patch(part)["volumes"]}
    assert "/var/lib/kubelet" not in paths
    assert env_of(part).get("BERTH_KUBELET_ROOT", "") == ""
