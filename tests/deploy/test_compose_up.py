"""`docker compose up`, for real: first placement, each service killed, the command that follows events."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy import engine

from berth.bus import Bus, BusSettings
from berth.cli.judge import judge
from berth.cli.load.api import Api
from berth.contracts import names
from berth.invariants.report import Result

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
RESTARTER = (
    "docker events --filter type=container --filter event=die --filter label=com.docker.compose.project={project} "
    "--format '{{{{if ne .Actor.Attributes.exitCode \"0\"}}}}{{{{.Actor.ID}}}}{{{{end}}}}' | xargs -r -n 1 docker start"
)
"""Docker starts again what crashes, but not what `docker kill` killed; the quick start has this line for those. What
has done its work and ended well (`passwords`) is left alone."""


class Project:
    """compose.yaml under a name of its own, published on free ports."""

    def __init__(self, folder: Path) -> None:
        self.name = f"berth-test-{secrets.token_hex(3)}"
        self._override = folder / "override.yaml"
        services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
        self.services = [name for name in services if name not in ("cli", "passwords")]
        lines = ["services:"]
        for name, each in services.items():
            free = [f'"127.0.0.1::{port.rsplit(":", 1)[1]}"' for port in each.get("ports", [])]
            lines.append(f"  {name}: {{ports: !override [{', '.join(free)}]}}")
        self._override.write_text("\n".join(lines) + "\n")

    def command(self, *arguments: str) -> list[str]:
        files = ["-f", str(ROOT / "compose.yaml"), "-f", str(self._override)]
        return ["docker", "compose", "-p", self.name, *files, *arguments]

    def compose(self, *arguments: str) -> str:
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"docker compose {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def address(self, service: str, port: int) -> str:
        """Host and port; empty while it does not run."""
        done = subprocess.run(self.command("port", service, str(port)), capture_output=True, text=True, check=False)
        return done.stdout.strip()

    @property
    def api(self) -> str:
        return f"http://{self.address('simulated-api', 8001)}"

    def container(self, service: str) -> str:
        return self.compose("ps", "-aq", service).strip()

    def healthy(self, service: str) -> bool:
        return engine.health(self.container(service)) in ("healthy", "running")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    engine.require_engine()
    engine.require_compose()
    found = Project(tmp_path)
    try:
        yield found
    finally:
        found.compose("down", "--volumes", "--timeout", "5")


def pods(api: str) -> list[Any]:
    return list((engine.get(f"{api}/api/v1/pods") or {"items": []})["items"])


def bound(api: str) -> list[Any]:
    return [pod for pod in pods(api) if pod["spec"].get("nodeName")]


def left_by_its_client(api: str, broken: Result) -> bool:
    """Whether only gangs are not whole of which the workload, killed or stopped on the way, had deleted the others."""
    return broken.name == "I3" and all(_is_rest(api, text) for text in broken.evidence)


def _is_rest(api: str, evidence: str) -> bool:
    gang = evidence.partition("gang default/")[2].partition(":")[0]
    found = [pod for pod in bound(api) if _note(pod, names.ANNOTATION_GANG_NAME) == gang]
    waiting = [pod for pod in pods(api) if _note(pod, names.ANNOTATION_GANG_NAME) == gang and pod not in found]
    return bool(found) and not waiting and len(found) < int(_note(found[0], names.ANNOTATION_GANG_MIN))


def _note(pod: Any, name: str) -> str:
    return str(pod["metadata"].get("annotations", {}).get(name, ""))


async def test_each_service_killed(project: Project) -> None:
    began = time.monotonic()
    project.compose("up", "-d", "--no-build")
    engine.until("the API answers", lambda: engine.get(f"{project.api}/api/v1/nodes"))
    engine.until("a pod has a node", lambda: bound(project.api))
    print(f"\nfirst placement {time.monotonic() - began:.1f} s after `docker compose up`")

    followed = until_line(project.command("run", "--rm", "-T", "cli", "watch", "placement.bound", "--json"), "job-")
    assert '"node":' in followed
    assert "docker compose run --rm cli watch placement" in (ROOT / "docs/quickstart.md").read_text()

    restarter = RESTARTER.format(project="berth")
    assert restarter in (ROOT / "docs/quickstart.md").read_text()
    with background(restarter.replace("project=berth", f"project={project.name}")):
        for service in project.services:
            began = time.monotonic()
            before = engine.inspect(project.container(service))["State"]["StartedAt"]
            project.compose("kill", "-s", "KILL", service)
            engine.until(f"{service} is started", started_after(project, service, before))
            engine.until(f"{service} is healthy", lambda service=service: project.healthy(service))
            assert engine.place(project.api, f"after-{service}")
            print(f"{service}: killed, and {time.monotonic() - began:.1f} s later a new pod is placed")

    project.compose("stop", "workload")
    password = project.compose("exec", "-T", "placement-solver", "cat", "/run/berth/password").strip()
    url = f"nats://placement-solver:{password}@{project.address('nats', 4222)}"
    bus = await Bus.connect(BusSettings(url=url), service="placement-solver")
    try:
        async with Api(project.api) as api:
            report = await judge(api, bus)
    finally:
        await bus.close()
    assert not [each for each in report.broken if not left_by_its_client(project.api, each)]


def test_what_crashes_is_started_again(project: Project) -> None:
    """Without any help: the main process is killed from outside of the container, as the kernel does without memory."""
    if os.geteuid() != 0:
        pytest.skip("killing a container's process from outside needs root")
    project.compose("up", "-d", "--no-build")
    engine.until("the API answers", lambda: engine.get(f"{project.api}/api/v1/nodes"))
    assert engine.place(project.api, "before")
    for service in project.services:
        state = engine.inspect(project.container(service))["State"]
        if not Path(f"/proc/{state['Pid']}").exists():
            pytest.skip("the engine runs on another machine")
        os.kill(state["Pid"], 9)
        engine.until(f"{service} is started", started_after(project, service, state["StartedAt"]))
    for service in project.services:
        engine.until(f"{service} is healthy", lambda service=service: project.healthy(service))
    assert engine.place(project.api, "after")


def started_after(project: Project, service: str, before: str) -> Callable[[], bool]:
    def probe() -> bool:
        state = engine.inspect(project.container(service))["State"]
        return bool(state["Running"] and state["StartedAt"] != before)

    return probe


def until_line(command: list[str], word: str) -> str:
    """The first line with this word that the command prints; then it is ended."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        timer = threading.Timer(engine.DEADLINE_S, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            return next((line for line in process.stdout if word in line), "")
        finally:
            timer.cancel()
            process.terminate()


@contextlib.contextmanager
def background(line: str) -> Iterator[None]:
    """A shell line that runs meanwhile, with all its processes."""
    process = subprocess.Popen(["sh", "-c", line], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        process.wait(30)
