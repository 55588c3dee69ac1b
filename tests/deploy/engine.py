"""A Docker engine for tests: is there one, are the images there, and what does a container say of itself?"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import pytest
from tests.deploy.manifests import tool

DEADLINE_S = 180.0
T = TypeVar("T")


def images() -> ModuleType:
    """The builder of images."""
    return tool("images/build")


def require_engine() -> None:
    """Skip, saying exactly why, unless an engine answers and has every image of ours."""
    try:
        answer = docker("version", "--format", "{{.Server.Version}}", check=False)
    except FileNotFoundError:
        pytest.skip("no Docker engine: no `docker` on PATH")
    if answer.returncode:
        pytest.skip(f"no Docker engine: {answer.stderr.strip()}")
    missing = [name for name in images().names() if images().layers(images().image(name)) is None]
    if missing:
        pytest.skip(f"images not built: {', '.join(missing)} (make images)")


def require_compose() -> None:
    """Skip, saying exactly why, without Compose v2."""
    answer = docker("compose", "version", "--short", check=False)
    if answer.returncode:
        pytest.skip(f"no `docker compose`: {answer.stderr.strip().splitlines()[0]}")


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done


def inspect(container: str) -> Any:
    return json.loads(docker("inspect", container).stdout)[0]


def health(container: str) -> str:
    """`healthy`, `starting`, `unhealthy`; or the state, when it does not run or has no health check."""
    state = inspect(container)["State"]
    return str(state.get("Health", state)["Status"]) if state["Running"] else str(state["Status"])


def until(what: str, probe: Callable[[], T], *, deadline_s: float = DEADLINE_S) -> T:
    """What the probe gives as soon as that is true."""
    end = time.monotonic() + deadline_s
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < end, f"not within {deadline_s:.0f} s: {what}"
        time.sleep(0.2)


def get(url: str) -> Any:
    """The JSON at a URL; None when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return json.load(response)
    except (OSError, ValueError):
        return None


def post(url: str, body: Any) -> int:
    """The status; 0 when nobody answers."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)
    except OSError:
        return 0


def pod(name: str) -> dict[str, Any]:
    amounts = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "main", "image": "example", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "berth-scheduler", "containers": [container]},
    }


def place(api: str, name: str) -> str:
    """Create a pod, again where the server forgot it, and wait until it has a node."""
    path = f"{api}/api/v1/namespaces/default/pods"

    def node() -> str:
        found = get(f"{path}/{name}")
        if found is None:
            post(path, pod(name))
            return ""
        return str(found["spec"].get("nodeName", ""))

    return until(f"{name} has a node", node)
