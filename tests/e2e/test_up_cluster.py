"""`berth up` on a cluster that exists, and `status`, `why` and `watch` of an installation with TLS and users."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import yaml
from tests.e2e.clusters import K8S, SIMULATED
from tests.e2e.standing import simulated_api

from berth.cli.cluster.kinds import definitions
from berth.testing.kube_server import KubeServer
from berth.testing.nats_server import NatsServer

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
    },
}


class Server(NamedTuple):
    """An API server that knows nothing of Berth, with an administrator's kubeconfig and a way to ask it."""

    kubeconfig: Path
    call: Callable[..., Any]


@contextmanager
def simulated(folder: Path) -> Iterator[Server]:
    """The simulated API as a process of its own, without any custom resource."""
    (folder / "crds").mkdir()
    with simulated_api(folder, "--crds", str(folder / "crds")) as url:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "wrong",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [
                {"name": "wrong", "context": {"cluster": "gone", "user": "u"}},
                {"name": "right", "context": {"cluster": "c", "user": "u"}},
            ],
        }
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        yield Server(file, caller(url, {}, None))


@contextmanager
def real(folder: Path) -> Iterator[Server]:
    """kube-apiserver; its kubeconfig gets a context that leads nowhere as the current one."""
    with KubeServer() as server:
        config = yaml.safe_load(server.admin_kubeconfig.read_text())
        (context,) = config["contexts"]
        context["name"] = "right"
        config["contexts"].append({"name": "wrong", "context": {"cluster": "gone", "user": context["context"]["user"]}})
        config["current-context"] = "wrong"
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        yield Server(file, caller(server.url, {"Authorization": f"Bearer {server.admin_token}"}, server.tls))


def caller(url: str, headers: Json, tls: Any) -> Callable[..., Any]:
    async def call(method: str, path: str, body: Json | None = None) -> Json:
        connector = aiohttp.TCPConnector(ssl=tls) if tls else None
        async with (
            aiohttp.ClientSession(headers=headers, connector=connector) as session,
            session.request(method, url + path, json=body) as response,
        ):
            answer: Json = await response.json()
            assert response.status < 300, answer
            return answer

    return call


@pytest.fixture
def server(kind: str, tmp_path: Path) -> Iterator[Server]:
    with (simulated if kind == SIMULATED else real)(tmp_path) as running:
        yield running


@contextmanager
def running(berth: Any, *arguments: str, env: Json | None = None) -> Iterator[list[str]]:
    """`berth up` for the length of a block; the lines it has said when it was up."""
    process = berth.start("up", *arguments, env=env)
    try:
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if "Ctrl-C" in line:
                break
        else:
            pytest.fail("\n".join(lines) + process.communicate()[1])
        yield lines
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, "")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


async def test_up_on_a_cluster_that_exists(berth: Any, server: Server, until: Callable[..., None]) -> None:
    there = ("--kubeconfig", str(server.kubeconfig), "--context", "right")
    await server.call("POST", "/api/v1/nodes", NODE)

    refused = berth("up", "--kubeconfig", str(server.kubeconfig))
    assert refused.code == 2
    assert str(server.kubeconfig) in refused.err

    bare = berth("up", *there)
    assert bare.code == 2
    assert "this cluster lacks" in bare.out
    assert f"kubectl --kubeconfig {server.kubeconfig} --context right apply --server-side -f" in bare.out
    assert f"kubectl --kubeconfig {server.kubeconfig} --context right create namespace berth-system" in bare.err

    stranger = berth("up", *there, "--install-crds", "--node", "nobody")
    assert stranger.code == 2
    assert "no node nobody" in stranger.err

    with running(berth, *there) as lines:
        told = "\n".join(lines)
        assert "lacks" not in told
        assert "schedulerName: berth-scheduler" in told
        assert f"kubectl --kubeconfig {server.kubeconfig} --context right get pods" in told
        first = next(line for line in lines if "submit -f" in line).split()[-1]
        made = berth("submit", "-f", first)
        assert (made.code, made.out) == (0, "pod/first-pod created\n"), made.err
        until(lambda: berth("why", "first-pod").code == 0, "the first pod is placed")
        pod = await server.call("GET", "/api/v1/namespaces/default/pods/first-pod")
        assert pod["spec"]["nodeName"] == "n1"
        status = berth("status")
        assert status.code == 0, status.out
        assert "runs on no node" in status.out

        second = berth("up", *there)
        assert second.code == 2
        assert "runs in the cluster of" in second.err

    lease = await server.call("GET", "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/cluster-writer")
    assert not lease["spec"].get("holderIdentity")
    assert berth.left_behind() == []
    found = await server.call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    assert {each["metadata"]["name"] for each in found["items"]} >= {each["metadata"]["name"] for each in definitions()}


async def test_up_with_too_few_rights_names_them(berth: Any, real_kind: str) -> None:
    with KubeServer() as server:
        server.kubectl("create", "namespace", "berth-system")
        for account in ("viewer", "nobody"):
            server.kubectl("create", "serviceaccount", account, "--namespace=default")
        some = ("--verb=get,list,watch", "--resource=nodes,namespaces,pods")
        server.kubectl("create", "clusterrole", "viewer", *some)
        to = ("--clusterrole=viewer", "--serviceaccount=default:viewer")
        server.kubectl("create", "clusterrolebinding", "viewer", *to)
        refused = berth("up", "--kubeconfig", str(server.kubeconfig("default/viewer")))
        assert refused.code == 2
        lacking = {line.split()[0]: line.split()[1:] for line in refused.err.splitlines()[1:]}
        assert lacking["pods/binding"] == ["create"]
        assert lacking["pods"] == ["patch", "delete"]
        assert lacking["leases.coordination.k8s.io"] == ["in", "berth-system", "create", "get", "patch"]
        assert "namespaces" not in lacking
        forbidden = berth("up", "--kubeconfig", str(server.kubeconfig("default/nobody")))
        assert forbidden.code == 2
        assert "rights system:serviceaccount:default:nobody | kubectl apply -f -" in forbidden.err


async def test_up_where_the_manifests_have_left_their_guard_says_so(berth: Any, real_kind: str) -> None:
    with KubeServer() as server:
        server.install_berth(K8S)
        refused = berth("up", "--kubeconfig", str(server.admin_kubeconfig))
        assert refused.code == 2
        command = refused.err.splitlines()[-1].split()
        assert command[:3] == ["kubectl", "--kubeconfig", str(server.admin_kubeconfig)]
        server.kubectl(*command[3:])
        with running(berth, "--kubeconfig", str(server.admin_kubeconfig)) as lines:
            assert not any("lacks" in line for line in lines)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[NatsServer, Path, dict[str, Path]]]:
    """A bus with TLS and two users; its authority, and the file with each user's password."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=berth-test"
    names = "-addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:TRUE"
    subprocess.run([*make.split(), *names.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    files = {}
    for user in ("berth", "reader"):
        files[user] = tmp_path / user
        files[user].write_text(f"p-{user}\n")
    users = """
        {user: berth, password: p-berth}
        {user: reader, password: p-reader, permissions: {
            publish: ["berth.v1.svc.>"], subscribe: ["berth.v1.evt.>", "_INBOX_cli.>"]}}
    """
    config = f'tls {{ key_file: "{key}", cert_file: "{cert}" }}\nauthorization {{ users: [{users}] }}'
    with NatsServer(config=config) as server:
        yield server, cert, files


async def test_a_bus_that_runs_already_is_used_and_asked_with_its_users(
    berth: Any, tmp_path: Path, secured: Any, until: Callable[..., None]
) -> None:
    bus, authority, passwords = secured
    url = f"tls://127.0.0.1:{bus.port}"
    mine = {
        "BERTH_NATS_URL": url,
        "BERTH_NATS_USER": "berth",
        "BERTH_NATS_PASSWORD_FILE": str(passwords["berth"]),
        "BERTH_NATS_CA_FILE": str(authority),
    }
    reader = ("--nats", url, "--nats-user", "reader", "--nats-password-file", str(passwords["reader"]))
    asking = (*reader, "--nats-ca-file", str(authority))
    with simulated(tmp_path) as server:
        there = ("--kubeconfig", str(server.kubeconfig), "--context", "right", "--install-crds")
        await server.call("POST", "/api/v1/nodes", NODE)
        wrong = berth("up", *there, env={**mine, "BERTH_NATS_PASSWORD_FILE": str(passwords["reader"])})
        assert wrong.code == 2
        assert "cannot connect to the bus" in wrong.err
        with running(berth, *there, env=mine) as lines:
            assert not any("nats-server on" in line for line in lines)
            until(lambda: berth("status", *asking).code == 0, "every service answers")
            assert berth("status", *reader).code == 2, "the certificate is not trusted"
            watching = berth.start("watch", "placement.bound", *asking)
            assert url in watching.stderr.readline()
            assert "listening" in watching.stderr.readline()
            first = Path(next(line for line in lines if "submit -f" in line).split()[-1])
            await server.call("POST", "/api/v1/namespaces/default/pods", json.loads(first.read_bytes()))
            assert "default/first-pod  n1" in watching.stdout.readline()
            watching.send_signal(signal.SIGINT)
            watching.communicate(timeout=30)
            assert berth("why", "first-pod", *asking).code == 0
            assert berth("why", "first-pod", env=mine).code == 0
            missing = berth("why", "first-pod", env={**mine, "BERTH_NATS_CA_FILE": "/nowhere"})
            assert (missing.code, missing.err) == (2, "berth: BERTH_NATS_CA_FILE: /nowhere cannot be read\n")
    assert berth.left_behind() == []
