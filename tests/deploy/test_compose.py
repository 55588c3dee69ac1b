"""compose.yaml against the services: every folder is there, every variable exists and can be read."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.runtime.settings import load_settings
from berth.testing.nats_server import find_server

ROOT = Path(__file__).parents[2]
USERS = ROOT / "k8s/components/nats/users.conf"
OTHERS = {"nats", "simulated-api", "workload", "cli"}
IMAGES = {"workload": "simulated-api"}
"""Services that run another's image."""


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "compose.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_every_service_is_there(compose: dict[str, Any], house: Any) -> None:
    assert set(compose["services"]) == {*house.services, *OTHERS}
    for name, service in compose["services"].items():
        build = {"target": "nats"} if name == "nats" else {"args": {"SERVICE": name}}
        assert service["image"] == f"berth/{IMAGES.get(name, name)}:${{BERTH_TAG:-dev}}"
        assert service.get("build") == (None if name in IMAGES else {"context": ".", **build})


def test_no_version_key(compose: dict[str, Any]) -> None:
    assert compose["name"] == "berth"
    assert "version" not in compose


def test_every_variable_is_a_setting_of_its_service(compose: dict[str, Any], house: Any) -> None:
    for name in house.services:
        environment = compose["services"][name]["environment"]
        assert set(environment) <= house.variables(name), name
        plain = {key: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for key, value in environment.items()}
        settings = load_settings(house.settings(name), plain)
        assert settings.nats_url == f"nats://{name}:{name}@nats:4222"


def test_what_needs_kubernetes_is_told_where_it_is(compose: dict[str, Any], house: Any) -> None:
    for name in house.services:
        has = "BERTH_KUBE_URL" in compose["services"][name]["environment"]
        assert has == ("kube_url" in house.settings(name).__struct_fields__), name


def test_ports_are_unique_and_on_loopback(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in published)
    outside = [port.split(":")[1] for port in published]
    assert len(outside) == len(set(outside))


def test_containers_can_do_little(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service
        assert "network_mode" not in service


def test_services_wait_for_what_they_need(compose: dict[str, Any], house: Any) -> None:
    for name in house.services:
        assert compose["services"][name]["depends_on"] == ["nats", "simulated-api"]


def test_only_the_node_agent_sees_the_machine(compose: dict[str, Any], house: Any) -> None:
    mounts = {name: compose["services"][name].get("volumes", []) for name in house.services}
    assert mounts.pop("node-qos-enforcer") == ["/sys/fs/cgroup:/host/cgroup:ro"]
    assert not any(mounts.values())


def test_each_user_of_the_bus_has_one_password_at_both_ends(compose: dict[str, Any], house: Any) -> None:
    users = set(re.findall(r"user: \"([^\"]+)\", password: \$(\w+)", USERS.read_text()))
    assert {user for user, _ in users} == {*house.services, "reader"}
    given = compose["services"]["nats"]["environment"]
    for user, variable in users:
        assert given[variable] == f"${{{variable}:-{user}}}"
        owner = "cli" if user == "reader" else user
        url = compose["services"][owner]["environment"]["BERTH_NATS_URL"]
        assert url == f"nats://{user}:${{{variable}:-{user}}}@nats:4222"


def test_the_bus_takes_its_configuration_and_strangers_are_readers(compose: dict[str, Any], tmp_path: Path) -> None:
    configs = {name: ROOT / each["file"] for name, each in compose["configs"].items()}
    for each in compose["services"]["nats"]["configs"]:
        (tmp_path / Path(each["target"]).name).write_text(configs[each["source"]].read_text())
    given = compose["services"]["nats"]["environment"]
    environment = {key: value.partition(":-")[2].rstrip("}") for key, value in given.items()}
    (file,) = (Path(each).name for each in compose["services"]["nats"]["command"] if each.endswith(".conf"))
    command = [find_server(), "-t", "-c", str(tmp_path / file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "no_auth_user: reader\n" in (tmp_path / file).read_text()


def test_the_bus_flushes_before_it_acknowledges() -> None:
    for file in ("compose.nats.conf", "k8s/components/nats/nats.conf"):
        assert "sync_interval: always" in (ROOT / file).read_text()


def test_docker_compose_accepts_it() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no `docker compose` here")
    command = [docker, "compose", "-f", str(ROOT / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
