"""The real API server in the hands of tests: it comes up, keeps its data, forgets on demand, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.clusters import K8S

from berth.testing.kube_server import KubectlError, KubeServer
from berth.testing.kube_server.fetch import fetch

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def server(real_kind: str) -> Iterator[KubeServer]:
    with KubeServer() as running:
        yield running


def get(server: KubeServer, path: str, account: str = "admin") -> str:
    return fetch(server.url + path, token=server.token(account), tls=server.tls).decode()


def test_it_keeps_address_and_data_over_restarts(server: KubeServer) -> None:
    server.kubectl("create", "namespace", "kept")
    before = server.url
    for daemon in (server.api, server.etcd):
        daemon.kill()
        assert daemon.pid == 0
    with pytest.raises(OSError, match="refused"):
        get(server, "/version")
    server.etcd.start()
    server.api.start()
    assert server.url == before
    assert "kept" in server.kubectl("get", "namespaces", "-o", "name")


def test_a_compacted_history_is_gone_after_a_restart(server: KubeServer) -> None:
    old = json.loads(get(server, "/api/v1/configmaps"))["metadata"]["resourceVersion"]
    server.kubectl("create", "configmap", "later")
    assert server.compact() > int(old)
    server.api.kill()
    server.api.start()
    watch = f"/api/v1/configmaps?watch=true&resourceVersion={old}&timeoutSeconds=5"
    assert json.loads(get(server, watch).splitlines()[0])["object"]["code"] == 410


def test_a_service_account_has_its_own_rights(server: KubeServer) -> None:
    server.install(K8S / "overlays/single-node", {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"})
    account = "berth-system/cluster-watcher"
    assert json.loads(get(server, "/api/v1/pods", account))["items"] == []
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(server, "/api/v1/secrets", account)
    assert "system:serviceaccounts:berth-system" in server.kubectl("auth", "whoami", account=account)
    with pytest.raises(KubectlError, match="forbidden"):
        server.kubectl("get", "secrets", account=account)


CHILD = """
import sys, time
from berth.testing.kube_server import KubeServer
server = KubeServer().start()
print(server.home, server.api.pid, server.etcd.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
def test_nothing_is_left_when_its_owner_dies(real_kind: str, until: Callable[..., None], number: int) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        home, *pids = owner.stdout.readline().split()
        assert Path(home).is_dir()
        owner.send_signal(number)
    until(lambda: not Path(home).exists(), f"{home} to be removed")
    until(lambda: not any(alive(int(pid)) for pid in pids), "both servers to end")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return os.path.exists(f"/proc/{pid}")
