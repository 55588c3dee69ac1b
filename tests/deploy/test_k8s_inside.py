"""What the component `inside` gives the node agent: settings that it has, and folders that it cannot write to."""

from __future__ import annotations

from typing import Any

import yaml
from tests.deploy.manifests import AGENT, K8S

from berth.runtime.settings import load_settings

FOLDER = K8S / "components/inside"
OF_NVIDIAS_RUNTIME = {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}


def patch(name: str) -> dict[str, Any]:
    (found,) = yaml.safe_load_all((FOLDER / name).read_text())
    return dict(found["spec"]["template"]["spec"])


def test_what_the_agent_is_told_are_settings_of_its_own(house: Any) -> None:
    (container,) = patch("looking.yaml")["containers"]
    told = {each["name"]: each["value"] for each in container["env"]}
    assert set(told) - OF_NVIDIAS_RUNTIME <= house.variables(AGENT)
    settings = load_settings(house.settings(AGENT), told)
    assert settings.devices
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    assert mounts["device-files"]["mountPath"] == settings.device_files


def test_it_only_reads_and_every_right_is_argued() -> None:
    pod = patch("looking.yaml")
    (container,) = pod["containers"]
    assert "securityContext" not in {**pod, **container}
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    lines = (FOLDER / "looking.yaml").read_text().splitlines()
    entries = [at for at, line in enumerate(lines) if line.strip().startswith("- {") or "name: device-files\n" in line]
    argued = [lines[at - 1].strip().startswith(("#", "- {")) for at in entries]
    assert argued
    assert all(argued)
