"""The Dockerfile: plain syntax, one image per service, nothing that a container needs not."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.deploy import engine

from berth.node_qos_enforcer.core.strategies.registry import STRATEGIES

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools/images"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = re.findall(r"^([A-Z]+) (.*)$", DOCKERFILE, re.MULTILINE)


def test_every_image_has_a_package(house: Any) -> None:
    packages = {
        tomllib.loads(path.read_text())["project"]["name"]
        for pattern in ("libs/*/pyproject.toml", "services/*/pyproject.toml")
        for path in ROOT.glob(pattern)
    }
    assert {f"berth-{service}" for service in house.services} <= packages
    assert {"berth-simcluster", "berth-cli"} <= packages


def test_every_image_has_a_module(house: Any) -> None:
    for service in house.services:
        module = service.replace("-", "_")
        assert (ROOT / f"services/{service}/src/berth/{module}/__main__.py").is_file()
    assert (ROOT / "libs/simcluster/src/berth/simcluster/__main__.py").is_file()
    assert (ROOT / "libs/cli/src/berth/cli/__main__.py").is_file()


def test_the_agents_tools_are_those_that_its_strategies_call() -> None:
    """Packages of Debian that have the programs; who builds no tools gets an agent that says what it lacks."""
    packages = {
        "tc": "iproute2",
        "nft": "nftables",
        "vgs": "lvm2",
        "lvs": "lvm2",
        "lsblk": "util-linux",
        "findmnt": "mount",
    }
    called = {tool for each in STRATEGIES for tool in each.needs.tools}
    assert called <= packages.keys()
    text = (TOOLS / "with_tools.Dockerfile").read_text()
    assert {packages[tool] for tool in called} <= set(re.findall(r"[a-z0-9-]+", text))
    assert text.rstrip().endswith("USER 65532:65532")


def test_no_buildkit_only_syntax() -> None:
    assert not DOCKERFILE.startswith("# syntax")
    assert "--mount" not in DOCKERFILE
    assert "<<" not in DOCKERFILE


def test_what_runs_runs_without_root() -> None:
    users = [rest for instruction, rest in INSTRUCTIONS if instruction == "USER"]
    assert users == ["65532:65532", "65532:65532"]  # the bus and the services


def test_the_lock_is_used_as_it_is() -> None:
    assert "uv export -q --frozen --no-dev --no-editable" in (TOOLS / "requirements.sh").read_text()


def test_uv_is_the_one_of_the_makefile() -> None:
    wanted = re.search(r"UV_VERSION:-([\d.]+)", (ROOT / "tools/uv.sh").read_text())
    found = re.search(r"^ARG UV_VERSION=([\d.]+)$", DOCKERFILE, re.MULTILINE)
    assert wanted is not None
    assert found is not None
    assert found[1] == wanted[1]


def test_only_what_is_copied_is_sent_to_the_builder() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for instruction, rest in INSTRUCTIONS
        if instruction == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    }
    assert {"tools/images" if each.startswith("tools/images/") else each for each in copied} == allowed


def test_libraries_stay_when_the_code_changes() -> None:
    """Stages that install libraries see lists of the lock only, never the sources."""
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    for name in ("common", "libraries"):
        (stage,) = (each for each in stages if f" AS {name}\n" in each)
        assert not re.search(r"^COPY (?!--from=lock|tools/)", stage, re.MULTILINE)


def test_every_image_is_built_and_measured(house: Any) -> None:
    assert set(engine.images().names()) == {*house.services, "nats", "simulated-api", "cli"}


SIZES = {"python:3.13-slim": 100, "berth/nats:dev": 120, "berth/cli:dev": 219, "berth/quota-manager:dev": 221}


@pytest.mark.parametrize(
    ("names", "code", "words"),
    [
        (["nats", "cli"], 0, ["20.0", "119.0"]),
        (["quota-manager"], 1, ["too large"]),
        (["slo-manager"], 1, ["missing"]),
        (["no-such"], 2, ["no image is called no-such"]),
    ],
)
def test_sizes_are_checked(tmp_path: Path, names: list[str], code: int, words: list[str]) -> None:
    """A Docker client that knows images of these sizes, in units of 10^6 bytes."""
    known = {name: [{"Size": size * 10**6, "RootFS": {"Layers": ["base", name]}}] for name, size in SIZES.items()}
    known["python:3.13-slim"][0]["RootFS"]["Layers"] = ["base"]
    docker = tmp_path / "docker"
    docker.write_text(
        f"#!{sys.executable}\nimport json, sys\nfound = {known!r}.get(sys.argv[-1])\n"
        "print(json.dumps(found))\nsys.exit(found is None)\n"
    )
    docker.chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(TOOLS / "build.py"), "--check", *names],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done
    for word in words:
        assert word in done.stdout + done.stderr


def test_the_health_check(tmp_path: Path) -> None:
    """200 is healthy; another answer and nobody there are not."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/readyz" else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    port, url = str(server.server_port), f"http://127.0.0.1:{server.server_port}"
    try:
        assert healthy({"BERTH_HTTP_PORT": port}) == 0
        assert healthy({}, "-q", "-O", "/dev/null", f"{url}/readyz") == 0
        assert healthy({}, f"{url}/other?readyz") == 1
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert healthy({"BERTH_HTTP_PORT": port}) == 1
    assert healthy({}, "nonsense") == 1


def healthy(environment: dict[str, str], *arguments: str) -> int:
    command = [sys.executable, "-IS", str(TOOLS / "healthy.py"), *arguments]
    return subprocess.run(command, env=environment, check=False, capture_output=True).returncode
