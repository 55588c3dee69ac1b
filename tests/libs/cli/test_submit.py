"""Objects of one's own, into a simulated cluster and out of it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.cli.__main__ import main
from berth.cli.cluster import grants, rights
from berth.cli.errors import EXIT_BAD, EXIT_OK, EXIT_USAGE
from berth.testing.kube_server import KubeMissingError, KubeServer, find_binary

POD = """
apiVersion: v1
kind: Pod
metadata: {name: mine}
spec:
  schedulerName: berth-scheduler
  containers: [{name: main, image: i, resources: {limits: {cpu: 100m}}}]
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: train, namespace: default}
spec: {minMember: 2}
"""


@pytest.fixture(autouse=True)
def _nothing_is_running(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))


@pytest.fixture
def url() -> Iterator[str]:
    """A simulated API in a thread of its own: the commands have an event loop themselves."""
    import asyncio
    import threading

    from berth.simcluster import SimSettings, serve

    started = threading.Event()
    found: list[str] = []
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        async with serve(SimSettings(kubelet=None)) as sim:
            found.append(sim.url)
            stop.append((asyncio.get_running_loop(), asyncio.Event()))
            started.set()
            await stop[0][1].wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert started.wait(30)
    yield found[0]
    loop, event = stop[0]
    loop.call_soon_threadsafe(event.set)
    thread.join(30)


def test_a_file_goes_in_and_out(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(POD)
    assert main(["submit", "-f", str(file), "--kube-url", url]) == EXIT_OK
    told = capsys.readouterr()
    assert told.out == "pod/mine created\npodgroup/train created\n"
    assert told.err.startswith(f"asking {url}\n")
    assert "why default/mine" in told.err
    assert main(["submit", "-f", str(file), "--kube-url", url]) == EXIT_BAD
    assert "already exists" in capsys.readouterr().err
    assert main(["delete", "mine", "gang/train", "--kube-url", url]) == EXIT_OK
    assert capsys.readouterr().out == "pod/mine deleted\npodgroup/train deleted\n"
    assert main(["delete", "-f", str(file), "--kube-url", url]) == EXIT_BAD
    assert "not found" in capsys.readouterr().err


def test_standard_input_and_a_namespace(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = {"kind": "Pod", "metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "m", "image": "i"}]}}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"kind": "List", "items": [pod]})))
    assert main(["submit", "-f", "-", "-n", "kube-public", "--kube-url", url]) == EXIT_OK
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("pod/p-")
    assert line.endswith("in kube-public created")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is no manifest"),
        ("a: [", "-f"),
        ("kind: Deployment\nmetadata: {name: a}", "'Deployment' is none of"),
        ("kind: Pod", "metadata.name: is missing"),
        ("- 1", "is no object"),
        ("kind: Pod\nmetadata: {name: a, namespace: b}", "metadata.namespace: is b"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    assert main(["submit", "-f", str(file), "-n", "c", "--kube-url", "http://127.0.0.1:1"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert told in said
    assert str(file) in said


@pytest.mark.parametrize(
    "arguments", [["submit"], ["delete"], ["delete", "thing/a"], ["delete", "a/b/c"], ["submit", "-f", "/nowhere"]]
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--kube-url", "http://127.0.0.1:1"]) == EXIT_USAGE
    assert capsys.readouterr().err


def test_with_nothing_running_the_cluster_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["delete", "a"]) == EXIT_USAGE
    assert "nothing is running here" in capsys.readouterr().err


# --- rights ----------------------------------------------------------------------------------------------------------


def test_the_grants_are_the_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rights", "alice"]) == EXIT_OK
    role, binding, home, _ = json.loads(capsys.readouterr().out)["items"]
    needs = {
        rights.Need(group, resource, verb, each["metadata"].get("namespace", ""), name)
        for each in (role, home)
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    assert needs == {*rights.WATCHER, *rights.WRITER}
    assert binding["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]
    account = grants.manifest("system:serviceaccount:team:me", rights.WATCHER)["items"][1]["subjects"]
    assert account == [{"kind": "ServiceAccount", "namespace": "team", "name": "me"}]


@pytest.mark.e2e
def test_a_login_without_rights_is_told_the_command_that_grants_them(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        find_binary("kube-apiserver")
    except KubeMissingError as error:
        pytest.skip(str(error))
    with KubeServer() as server:
        server.kubectl("create", "namespace", rights.HOME)
        server.kubectl("create", "serviceaccount", "-n", "default", "me")
        login = str(server.kubeconfig("default/me"))
        assert main(["up", "--kubeconfig", login]) == EXIT_USAGE
        said = capsys.readouterr().err
        assert "berth rights system:serviceaccount:default:me | kubectl apply -f -" in said
        assert "pods/binding" in said
        assert main(["rights", "system:serviceaccount:default:me"]) == EXIT_OK
        server.kubectl("apply", "-f", "-", stdin=capsys.readouterr().out)
        assert "yes" in server.kubectl("auth", "can-i", "patch", "nodes", account="default/me")


@pytest.mark.e2e
def test_whoever_may_not_submit_is_given_the_commands_that_let_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        find_binary("kube-apiserver")
    except KubeMissingError as error:
        pytest.skip(str(error))
    file = tmp_path / "mine.yaml"
    file.write_text(POD.partition("---")[0])
    with KubeServer() as server:
        server.kubectl("create", "serviceaccount", "-n", "default", "default")
        server.kubectl("create", "serviceaccount", "-n", "default", "me")
        submit = ["submit", "-f", str(file), "--kubeconfig", str(server.kubeconfig("default/me"))]
        assert main(submit) == EXIT_BAD
        said = capsys.readouterr().err
        commands = [line.split() for line in said.splitlines() if line.startswith("  kubectl ")]
        assert [command[2] for command in commands] == ["role", "rolebinding"], said
        for command in commands:
            server.kubectl(*command[1:])
        assert main(submit) == EXIT_OK, capsys.readouterr().err
        server.kubectl("label", "namespace", "default", "pod-security.kubernetes.io/enforce=restricted")
        file.write_text(POD.partition("---")[0].replace("mine", "another"))
        assert main(submit) == EXIT_BAD
        assert "grants it" not in capsys.readouterr().err, "what an admission says is no lack of rights"
