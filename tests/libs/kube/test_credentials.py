"""Finding the server and proving who we are."""

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.kube import PODS, Kube, KubeConfigError, KubeSettings
from berth.kube import credentials as credentials_module
from berth.kube.client import find_endpoint
from berth.kube.credentials import RefreshedCredentials, in_cluster, read_token_file

TOKEN_PLUGIN = """
import json, os, pathlib, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
counter = pathlib.Path(sys.argv[1])
n = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(n))
status = {"token": f"{os.environ['PREFIX']}{n}"}
if len(sys.argv) > 2:
    status["expirationTimestamp"] = sys.argv[2]
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def kubeconfig(folder: Path, user: dict[str, Any], server: str = "http://127.0.0.1:1", **cluster: Any) -> str:
    path = folder / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "main",
                "clusters": [
                    {"name": "c", "cluster": {"server": server, **cluster}},
                    {"name": "other", "cluster": {"server": "http://other:1"}},
                ],
                "users": [{"name": "u", "user": user}],
                "contexts": [
                    {"name": "main", "context": {"cluster": "c", "user": "u"}},
                    {"name": "second", "context": {"cluster": "other"}},
                ],
            }
        )
    )
    return str(path)


def plugin(folder: Path, *arguments: str) -> dict[str, Any]:
    script = folder / "plugin.py"
    script.write_text(TOKEN_PLUGIN)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(script), str(folder / "count"), *arguments],
            "env": [{"name": "PREFIX", "value": "plug-"}],
        }
    }


async def test_a_token_of_a_kubeconfig(server: Any, replies: Any, tmp_path: Path) -> None:
    server.on("GET", "/api/v1/namespaces/ns/pods/p", replies.json({}))
    path = kubeconfig(tmp_path, {"token": "abc"}, server.url + "/")
    async with await Kube.connect(KubeSettings(kubeconfig=path)) as kube:
        assert (await kube.get(PODS, "ns", "p")).ok
    assert server.asked[0][3]["Authorization"] == "Bearer abc"


async def test_another_context(tmp_path: Path, clock: Any) -> None:
    path = kubeconfig(tmp_path, {"token": "abc"})
    endpoint = await find_endpoint(KubeSettings(kubeconfig=path, context="second"), clock)
    assert endpoint.server == "http://other:1"
    assert await endpoint.credentials.authorization() is None


async def test_basic_authentication(tmp_path: Path, clock: Any) -> None:
    path = kubeconfig(tmp_path, {"username": "me", "password": "pw"})
    endpoint = await find_endpoint(KubeSettings(kubeconfig=path), clock)
    header = await endpoint.credentials.authorization()
    assert header == "Basic " + base64.b64encode(b"me:pw").decode()


async def test_a_token_file_of_a_kubeconfig_is_read_again_after_a_minute(tmp_path: Path, clock: Any) -> None:
    (tmp_path / "token").write_text("one")
    path = kubeconfig(tmp_path, {"tokenFile": "token"})
    endpoint = await find_endpoint(KubeSettings(kubeconfig=path), clock)
    (tmp_path / "token").write_text("two")
    assert await endpoint.credentials.authorization() == "Bearer one"
    clock.time_s += 61
    assert await endpoint.credentials.authorization() == "Bearer two"


async def test_an_exec_plugin_without_expiry_runs_again_only_when_refused(tmp_path: Path, clock: Any) -> None:
    path = kubeconfig(tmp_path, plugin(tmp_path))
    endpoint = await find_endpoint(KubeSettings(kubeconfig=path), clock)
    assert await endpoint.credentials.authorization() == "Bearer plug-1"
    clock.time_s += 600
    assert await endpoint.credentials.authorization() == "Bearer plug-1"
    clock.time_s += 5
    assert await endpoint.credentials.authorization(renew=True) == "Bearer plug-2"


async def test_an_exec_plugin_whose_token_expired_runs_again(tmp_path: Path, clock: Any) -> None:
    path = kubeconfig(tmp_path, plugin(tmp_path, "2020-01-01T00:00:00Z"))
    endpoint = await find_endpoint(KubeSettings(kubeconfig=path), clock)
    clock.time_s += 61
    assert await endpoint.credentials.authorization() == "Bearer plug-2"


async def test_an_exec_plugin_that_fails_later_leaves_the_last_token(tmp_path: Path, clock: Any) -> None:
    path = kubeconfig(tmp_path, plugin(tmp_path, "2020-01-01T00:00:00Z"))
    endpoint = await find_endpoint(KubeSettings(kubeconfig=path), clock)
    (tmp_path / "plugin.py").write_text("raise SystemExit(3)")
    clock.time_s += 61
    assert await endpoint.credentials.authorization() == "Bearer plug-1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "apiVersion: v1\nclusters: []\ncontexts: []\ncurrent-context: x\nusers: []\n",
        "apiVersion: v1\nclusters: 3\ncontexts: 4\n",
    ],
)
async def test_a_broken_kubeconfig_is_told(tmp_path: Path, clock: Any, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeConfigError, match="config"):
        await find_endpoint(KubeSettings(kubeconfig=str(path)), clock)


async def test_a_missing_kubeconfig_and_a_failing_plugin_are_told(tmp_path: Path, clock: Any) -> None:
    with pytest.raises(KubeConfigError, match="no such file"):
        await find_endpoint(KubeSettings(kubeconfig=str(tmp_path / "none")), clock)
    broken = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/does/not/exist"}}
    with pytest.raises(KubeConfigError, match="/does/not/exist"):
        await find_endpoint(KubeSettings(kubeconfig=kubeconfig(tmp_path, broken)), clock)


async def test_tls_settings_of_a_kubeconfig(tmp_path: Path, clock: Any) -> None:
    path = kubeconfig(
        tmp_path,
        {"token": "t"},
        "https://127.0.0.1:1",
        **{"insecure-skip-tls-verify": True, "tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128"},
    )
    endpoint = await find_endpoint(KubeSettings(kubeconfig=path), clock)
    assert endpoint.tls is not None
    assert endpoint.tls.check_hostname is False
    assert (endpoint.tls_server_name, endpoint.proxy) == ("kubernetes", "http://proxy:3128")
    with pytest.raises(KubeConfigError, match=r"nothing\.pem"):
        await find_endpoint(KubeSettings(url="https://x", ca_file=str(tmp_path / "nothing.pem")), clock)


async def test_a_pods_service_account(tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("sa")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(KubeConfigError, match=r"ca\.crt"):
        in_cluster(clock, tmp_path)
    monkeypatch.setattr(credentials_module, "tls_context", lambda server, ca: (server, ca))
    endpoint = in_cluster(clock, tmp_path)
    assert endpoint.server == "https://[fd00::1]:443"
    assert endpoint.tls == ("https://[fd00::1]:443", str(tmp_path / "ca.crt"))  # type: ignore[comparison-overlap]
    (tmp_path / "token").write_text("sa2")
    assert await endpoint.credentials.authorization() == "Bearer sa"
    clock.time_s += 61
    assert await endpoint.credentials.authorization() == "Bearer sa2"
    (tmp_path / "token").unlink()
    clock.time_s += 61
    assert await endpoint.credentials.authorization() == "Bearer sa2"


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"\xff"])
def test_a_file_without_a_token_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(KubeConfigError, match="token"):
        read_token_file(tmp_path / "token")


async def test_many_requests_share_one_renewal(clock: Any) -> None:
    reads = 0

    async def read(_: bool) -> str:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        return f"Bearer {reads}"

    fresh = RefreshedCredentials(read, clock, "Bearer 0")
    clock.time_s += 2
    headers = await asyncio.gather(*(fresh.authorization(renew=True) for _ in range(50)))
    assert set(headers) == {"Bearer 1"}
    assert reads == 1


def test_reading_a_kubeconfig_does_not_load_the_generated_client(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": "abc"})
    program = f"""
import asyncio, json, sys
from berth.kube import KubeSettings, SystemClock
from berth.kube.client import find_endpoint
endpoint = asyncio.run(find_endpoint(KubeSettings(kubeconfig={path!r}), SystemClock()))
loaded = [m for m in sys.modules if m.startswith("kubernetes_asyncio")]
import kubernetes_asyncio
print(json.dumps([endpoint.server, loaded, hasattr(kubernetes_asyncio.client, "CoreV1Api")]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == ["http://127.0.0.1:1", [], True]
