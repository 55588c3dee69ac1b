"""compose.yaml against the services: every folder is there, every variable exists and can be read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nats
import pytest
import yaml
from nats.aio.client import Client
from tests.deploy.manifests import WORKLOADS, tool

from berth.cli.stack.services import FULL_SHARE, SERVICES
from berth.runtime.settings import load_settings
from berth.testing.nats_server import find_server
from berth.testing.views import eventually

ROOT = Path(__file__).parents[2]
OTHERS = {"nats", "passwords", "simulated-api", "workload", "cli"}
AGENT = "node-qos-enforcer"
IMAGES = {"workload": "simulated-api", "passwords": "nats"}
"""Services that run another's image."""


@pytest.fixture(scope="module")
def services(house: Any) -> list[str]:
    """All but node-authenticator: the agent of the one node is a user of the bus, and no kubelet makes it a token."""
    return [name for name in house.services if name != "node-authenticator"]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "compose.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_every_service_is_there(compose: dict[str, Any], services: list[str]) -> None:
    assert set(compose["services"]) == {*services, *OTHERS}
    for name, service in compose["services"].items():
        build = {"target": "nats"} if name == "nats" else {"args": {"SERVICE": name}}
        assert service["image"] == f"berth/{IMAGES.get(name, name)}:${{BERTH_TAG:-dev}}"
        assert service.get("build") == (None if name in IMAGES else {"context": ".", **build})


def test_who_gives_way_on_full_cores_is_who_does_in_a_cluster(compose: dict[str, Any], services: list[str]) -> None:
    ours = {spec.name: spec for spec in SERVICES}
    for workload in WORKLOADS:
        name = workload["metadata"]["name"]
        if name not in services or name in {AGENT, "admission-webhook"}:  # a container or a pod waits for these
            continue
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        asked = int(container["resources"]["requests"]["cpu"].removesuffix("m"))
        share = min(asked, FULL_SHARE)
        assert compose["services"][name].get("cpu_shares", 1024) == 1024 * share // FULL_SHARE, name
        if name in ours:
            assert ours[name].cpu_milli == share, name


def test_no_version_key(compose: dict[str, Any]) -> None:
    assert compose["name"] == "berth"
    assert "version" not in compose


def test_every_variable_is_a_setting_of_its_service(compose: dict[str, Any], services: list[str], house: Any) -> None:
    for name in services:
        environment = compose["services"][name]["environment"]
        assert set(environment) <= house.variables(name), name
        plain = {key: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for key, value in environment.items()}
        settings = load_settings(house.settings(name), plain)
        assert (settings.nats_url, settings.nats_user) == ("nats://nats:4222", name)
        assert settings.nats_password_file == f"{mounted(compose, name)[f'password-{name}']}/password"
        assert settings.nats_domain == ("berth" if name == AGENT else "")


def test_what_needs_kubernetes_is_told_where_it_is(compose: dict[str, Any], services: list[str], house: Any) -> None:
    for name in services:
        has = "BERTH_KUBE_URL" in compose["services"][name]["environment"]
        assert has == ("kube_url" in house.settings(name).__struct_fields__), name


def test_ports_are_on_loopback_and_those_of_services_are_free_ones(compose: dict[str, Any], house: Any) -> None:
    """A fixed one would keep a second replica from starting: `docker compose up --scale placement-solver=2`."""
    for name, service in compose["services"].items():
        for port in service.get("ports", []):
            address, outside, inside = port.split(":")
            assert address == "127.0.0.1"
            assert outside == ("" if name in house.services else inside)
    assert all("container_name" not in service for service in compose["services"].values())


def test_containers_can_do_little(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service
        assert "network_mode" not in service


def test_services_wait_for_what_they_need(compose: dict[str, Any], services: list[str]) -> None:
    for name in services:
        assert compose["services"][name]["depends_on"] == ["nats", "simulated-api"]


def test_only_the_node_agent_sees_the_machine(compose: dict[str, Any], services: list[str]) -> None:
    mounts = {name: compose["services"][name]["volumes"] for name in services}
    assert mounts.pop(AGENT)[:-1] == ["/sys/fs/cgroup:/host/cgroup:ro"]
    assert mounts.pop("recorder")[1:] == ["recorder:/var/lib/berth/recorder"]
    assert all(mounts[name] == [f"password-{name}:/run/berth:ro"] for name in mounts)


def mounted(compose: dict[str, Any], name: str) -> dict[str, str]:
    """Where the volumes of a service are mounted."""
    volumes = [each.split(":") for each in compose["services"][name].get("volumes", [])]
    return {parts[0]: parts[1] for parts in volumes if not parts[0].startswith("/")}


def made_up(compose: dict[str, Any], folder: Path) -> dict[str, Path]:
    """What the service `passwords` leaves in its volumes, by volume; run as its container would, with our files."""
    configs = {name: ROOT / each["file"] for name, each in compose["configs"].items()}
    files = {each["target"]: configs[each["source"]] for each in compose["services"]["passwords"]["configs"]}
    volumes = {volume: folder / path.lstrip("/") for volume, path in mounted(compose, "passwords").items()}
    for each in volumes.values():
        each.mkdir(parents=True, exist_ok=True)
    program, *arguments = compose["services"]["passwords"]["entrypoint"]
    assert program == "python3"
    command = [str(files.get(each, str(folder) + each if each.startswith("/") else each)) for each in arguments]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return volumes


def test_passwords_are_made_up_at_the_first_start_and_kept(
    compose: dict[str, Any], services: list[str], tmp_path: Path
) -> None:
    assert not re.search(r"PASSWORD\w*: *[^/\s]", (ROOT / "compose.yaml").read_text())
    volumes = made_up(compose, tmp_path)
    assert set(volumes) == {"passwords-nats", *(f"password-{name}" for name in services)}
    first = {volume: sorted(file.read_text() for file in path.iterdir()) for volume, path in volumes.items()}
    values = [text.strip() for volume, texts in first.items() if volume != "passwords-nats" for text in texts]
    assert len(set(values)) == len(services)
    assert all(re.fullmatch(r"p[0-9a-f]{48}", value) for value in values)
    made_up(compose, tmp_path)
    assert first == {volume: sorted(file.read_text() for file in path.iterdir()) for volume, path in volumes.items()}
    assert all(made_up(compose, tmp_path / "other")[volume] for volume in volumes)
    other = (tmp_path / "other/passwords/nats/passwords.env").read_text()
    assert other != (tmp_path / "passwords/nats/passwords.env").read_text()


def test_a_service_sees_its_own_password_alone(compose: dict[str, Any], house: Any) -> None:
    for name in compose["services"]:
        expected = {f"password-{name}"} if name in house.services else set()
        if name == "nats":
            expected = {"passwords-nats", "nats"}
        if name == "recorder":
            expected.add("recorder")
        if name != "passwords":
            assert set(mounted(compose, name)) == expected, name
    assert set(compose["volumes"]) == {*mounted(compose, "passwords"), "nats", "recorder"}


async def test_the_bus_takes_the_passwords_and_strangers_are_readers(compose: dict[str, Any], tmp_path: Path) -> None:
    """The command of its container, on a server of ours: every service comes in, and who names no user only reads."""
    volumes = made_up(compose, tmp_path)
    nats_service = compose["services"]["nats"]
    assert nats_service["depends_on"] == {"passwords": {"condition": "service_completed_successfully"}}
    configs = {name: ROOT / each["file"] for name, each in compose["configs"].items()}
    for each in nats_service["configs"]:
        text = configs[each["source"]].read_text().replace("/data", str(tmp_path / "data"))
        text = re.sub(r"(?m)^(http_port|port): \d+", r"\1: -1", text)
        (tmp_path / Path(each["target"]).name).write_text(text)
    shell, flag, line = nats_service["entrypoint"]
    line = line.replace("/run/berth", str(volumes["passwords-nats"])).replace("/etc/nats", str(tmp_path))
    (tmp_path / "ports").mkdir()
    line = line.replace("exec nats-server", f"exec {find_server()} --ports_file_dir {tmp_path}/ports")
    process = subprocess.Popen([shell, flag, line], stderr=subprocess.DEVNULL)
    try:
        ports: list[Path] = []
        await eventually(lambda: ports.extend((tmp_path / "ports").glob("*.ports")) or ports, deadline_s=20)
        await eventually(lambda: ports[0].read_text().endswith("}"), deadline_s=5)
        url = json.loads(ports[0].read_text())["nats"][0].replace("0.0.0.0", "127.0.0.1")
        for volume, path in volumes.items():
            if volume != "passwords-nats":
                password = (path / "password").read_text().strip()
                client = await nats.connect(url, user=volume.removeprefix("password-"), password=password)
                await client.close()
        guessing = Client()
        told = {"user": "quota-manager", "password": "quota-manager", "error_cb": ignore}
        with pytest.raises(nats.errors.Error):
            await guessing.connect(url, allow_reconnect=False, max_reconnect_attempts=1, **told)
        await guessing.close()
        reader = await nats.connect(url, error_cb=ignore)
        with pytest.raises(nats.errors.Error):
            await reader.request("$JS.API.STREAM.NAMES", timeout=0.5)
        await reader.close()
    finally:
        process.terminate()
        process.wait(10)


async def ignore(error: Exception) -> None:
    """The refusal is what the test waits for."""


def test_down_removes_what_the_command_line_runs_as_well(compose: dict[str, Any]) -> None:
    """A service of a profile would stay, and its network with it, unless the profile is named again."""
    assert all("profiles" not in service for service in compose["services"].values())
    assert compose["services"]["cli"]["scale"] == 0


def test_the_bus_flushes_before_it_acknowledges() -> None:
    for file in ("compose.nats.conf", "k8s/components/nats/nats.conf"):
        assert "sync_interval: always" in (ROOT / file).read_text()


def test_the_agent_has_the_rights_of_the_node_that_it_names(compose: dict[str, Any]) -> None:
    node = compose["services"][AGENT]["environment"]["BERTH_NODE_NAME"]
    assert {AGENT: node} in tool("nats_permissions").TARGETS.values()


def test_docker_compose_accepts_it() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no `docker compose` here")
    command = [docker, "compose", "-f", str(ROOT / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
