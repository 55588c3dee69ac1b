"""Bus and services as containers of a real engine: read-only, without root and rights, healthy, and placing pods."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.deploy import engine

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.filterwarnings("ignore::ResourceWarning")]

ROOT = Path(__file__).parents[2]
LOCKED: dict[str, Any] = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
}
KUBE_URL = "http://simulated-api:8001"
PASSWORD = "pw"
BUS = {"BERTH_NATS_URL": "nats://nats:4222", "BERTH_NATS_PASSWORD_FILE": "/etc/nats/password"}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
    "status": {
        "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
    },
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "berth-system"}}


class House(NamedTuple):
    """Containers by service."""

    containers: dict[str, Any]

    def id_of(self, name: str) -> str:
        return str(self.containers[name].get_wrapped_container().id)

    @property
    def api(self) -> str:
        return f"http://{self._address('simulated-api', 8001)}"

    @property
    def bus(self) -> str:
        return f"nats://{self._address('nats', 4222)}"

    def _address(self, name: str, port: int) -> str:
        """Asked each time: a container that is started again is published elsewhere."""
        published = engine.inspect(self.id_of(name))["NetworkSettings"]["Ports"][f"{port}/tcp"][0]
        return f"{published['HostIp']}:{published['HostPort']}"


@pytest.fixture(scope="module")
def running(house: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The whole control plane on a network of its own; everything is removed at the end."""
    engine.require_engine()
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.network import Network

    if engine.docker("image", "inspect", testcontainers_config.ryuk_image, check=False).returncode:
        testcontainers_config.ryuk_disabled = True  # it tidies up after a killed test run; not every place has it
    folder = configured(tmp_path_factory.mktemp("nats"))
    users = {f"NATS_PASSWORD_{each.upper().replace('-', '_')}": PASSWORD for each in [*house.services, "reader"]}
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network())

        def start(name: str, command: str, port: int, environment: dict[str, str]) -> Any:
            return stack.enter_context(container(network, folder, name, command, port, environment))

        found = {"nats": start("nats", "-c /etc/nats/nats.conf", 4222, users)}
        serve = "serve --host=0.0.0.0 --port=8001"
        found["simulated-api"] = start("simulated-api", serve, 8001, {"BERTH_HTTP_PORT": "8001"})
        for name in house.services:
            kube = {"BERTH_KUBE_URL": KUBE_URL} if "BERTH_KUBE_URL" in house.variables(name) else {}
            found[name] = start(name, "", 8080, {**BUS, "BERTH_NATS_USER": name, **kube})
        started = House(found)
        for path, manifest in (("nodes", NODE), ("namespaces", NAMESPACE)):
            create = functools.partial(engine.post, f"{started.api}/api/v1/{path}", manifest)
            engine.until(f"{path} can be created", lambda create=create: create() in (201, 409))
        yield started


def configured(folder: Path) -> Path:
    """What is mounted: the configuration of compose.yaml's bus, and the password for every service."""
    (folder / "password").write_text(PASSWORD)
    (folder / "nats.conf").write_text((ROOT / "compose.nats.conf").read_text())
    (folder / "users.conf").write_text((ROOT / "k8s/components/nats/users.conf").read_text())
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    return folder


def container(network: Any, folder: Path, name: str, command: str, port: int, environment: dict[str, str]) -> Any:
    """Not started yet; with the locks of compose.yaml, published on loopback only."""
    from testcontainers.core.container import DockerContainer

    found = DockerContainer(engine.images().image(name), network=network, network_aliases=[name])
    found.with_kwargs(**LOCKED).with_tmpfs_mount("/tmp").with_volume_mapping(str(folder), "/etc/nats", "ro")
    found.ports[port] = ("127.0.0.1", None)
    for key, value in environment.items():
        found.with_env(key, value)
    return found.with_command(command.split()) if command else found


def test_a_pod_is_placed_and_everything_is_healthy(running: House) -> None:
    assert engine.place(running.api, "first") == "n1"
    for name in running.containers:
        engine.until(f"{name} is healthy", lambda name=name: engine.health(running.id_of(name)) == "healthy")


def test_containers_can_do_little(running: House) -> None:
    for name in running.containers:
        found = engine.inspect(running.id_of(name))
        assert found["Config"]["User"] == "65532:65532", name
        assert found["HostConfig"]["ReadonlyRootfs"] is True
        tries = "import os\nprint(os.getuid())\nopen('/app/new' if os.path.isdir('/app') else '/new', 'w')"
        done = engine.docker("exec", running.id_of(name), "python3", "-c", tries, check=False)
        assert done.stdout == "65532\n", name
        assert "Read-only file system" in done.stderr, done.stderr


def test_strangers_read_and_do_not_write(running: House) -> None:
    """Who connects without a user is the reader: it can ask every service, and cannot write the ledger."""
    status = ["berth", "status", "--json", "--nats", running.bus]
    engine.until("status is good", lambda: ran(*status).returncode == 0)
    program = (
        "import asyncio, nats\n"
        "async def main():\n"
        "    told = []\n"
        "    async def error(e): told.append(str(e))\n"
        f"    bus = await nats.connect('{running.bus}', error_cb=error)\n"
        "    await bus.publish('$KV.berth_ledger.any', b'{}')\n"
        "    await bus.flush()\n"
        "    for _ in range(50):\n"  # the server may say so behind its answer to the flush
        "        await asyncio.sleep(0 if told else 0.1)\n"
        "    print(told)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 'Permissions Violation for Publish to "$KV.berth_ledger.any"'.lower() in done.stdout.lower()


def test_the_bus_keeps_what_it_said_when_its_process_is_killed(running: House) -> None:
    """Decisions survive: the pod placed before stays decided, and one created after is placed."""
    bus = running.id_of("nats")
    engine.docker("kill", "--signal", "KILL", bus)
    engine.until("it is dead", lambda: engine.health(bus) == "exited")
    engine.docker("start", bus)
    assert engine.place(running.api, "second") == "n1"


def test_the_image_of_the_command_runs(running: House) -> None:
    image = engine.images().image("cli")
    done = engine.docker("run", "--rm", "--read-only", "--cap-drop=ALL", image, "--version")
    assert done.stdout.strip()


def test_services_share_a_layer(running: House, house: Any) -> None:
    """The one above the base holds the libraries of all; a registry and a node keep it once."""
    builder = engine.images()
    below = len(builder.layers(builder.base()).digests)
    assert len({builder.layers(builder.image(name)).digests[below] for name in house.services}) == 1


def test_the_solver_needs_nothing_that_its_image_leaves_out(running: House) -> None:
    printed = inside(running, "placement-solver", OPTIMISE)
    assert printed == "11.0 HIGHS\n"


def test_a_kubeconfig_is_read_without_the_generated_client(running: House) -> None:
    printed = inside(running, "cluster-watcher", READ_KUBECONFIG)
    assert printed == "https://127.0.0.1:6443 Bearer told\n"


OPTIMISE = """
import cvxpy, numpy
from berth.placement_solver.core.joint import leaving_model, model
from berth.placement_solver.core.prices import program
x = cvxpy.Variable(3, integer=True)
task = cvxpy.Problem(cvxpy.Maximize(numpy.array([1, 2, 3]) @ x), [x >= 0, cvxpy.sum(x) <= 5, x <= 2])
task.solve(solver=program.cp.HIGHS, threads=1)
print(round(task.value, 6), task.solver_stats.solver_name)
"""
READ_KUBECONFIG = """
import asyncio, json, pathlib
from berth.kube.clock import SystemClock
from berth.kube.kubeconfig import from_kubeconfig
told = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "told"}}
pathlib.Path("/tmp/plugin").write_text(f"echo '{json.dumps(told)}'")
plugin = {"apiVersion": told["apiVersion"], "command": "sh", "args": ["/tmp/plugin"], "interactiveMode": "Never"}
pathlib.Path("/tmp/config").write_text(json.dumps({
    "apiVersion": "v1", "kind": "Config", "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True}}],
    "users": [{"name": "u", "user": {"exec": plugin}}],
}))
async def main():
    found = await from_kubeconfig("/tmp/config", "", SystemClock())
    print(found.server, await found.credentials.authorization())
asyncio.run(main())
"""


def inside(running: House, name: str, program: str) -> str:
    """What a program prints in the container of a service."""
    return engine.docker("exec", running.id_of(name), "/app/venv/bin/python", "-c", program).stdout


def ran(*command: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name(command[0]))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("BERTH_")}
    return subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False, env=environment)
