from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from berth.cli.cluster import checks, rights
from berth.cli.cluster.checks import node_of_this_machine
from berth.cli.cluster.kinds import definitions, resource_of
from berth.cli.cluster.target import Target, target_of
from berth.cli.errors import CliError
from berth.kube import DEVICES, ELASTIC_QUOTAS, POD_GROUPS, RESERVATIONS
from berth.kube.answer import Answer

K8S = Path(__file__).parents[3] / "k8s/base"
PREEMPTION = K8S.parent / "components/preemption/rights.yaml"


def granted(service: str) -> set[rights.Need]:
    """What the manifests of a service grant it, preemption included, one verb on one kind each."""
    needs = set()
    text = (K8S / f"{service}.yaml").read_text()
    if service == "cluster-writer":
        text += "---\n" + PREEMPTION.read_text()
    for document in yaml.safe_load_all(text):
        if document["kind"] not in ("ClusterRole", "Role"):
            continue
        namespace = document["metadata"].get("namespace", "")
        for rule in document["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", [""]):
                            needs.add(rights.Need(group, resource, verb, namespace, name))
    return needs


@pytest.mark.parametrize(("service", "needs"), [("cluster-watcher", rights.WATCHER), ("cluster-writer", rights.WRITER)])
def test_the_rights_that_are_checked_are_those_that_the_manifests_grant(
    service: str, needs: tuple[rights.Need, ...]
) -> None:
    assert granted(service) == set(needs), "berth.cli.cluster.rights and k8s/base differ"


class Judge:
    """An API server that says no to some reviews."""

    def __init__(self, refuse: set[str], status: int = 201) -> None:
        self.refuse = refuse
        self.status = status
        self.asked: list[dict[str, str]] = []

    async def create(self, resource: Any, namespace: str, body: Any, **_: Any) -> Answer:
        asked = body["spec"]["resourceAttributes"]
        self.asked.append(asked)
        allowed = f"{asked['verb']} {asked['resource']}" not in self.refuse
        return Answer(self.status, msgspec.json.encode({"status": {"allowed": allowed}}), "")


async def test_rights_that_are_refused_are_named_as_kubectl_takes_them() -> None:
    judge: Any = Judge({"create pods", "patch devices", "create leases"})
    found = await rights.refused(judge, (*rights.WATCHER, *rights.WRITER))
    assert sorted(f"{need.verb} {need.kind}" for need in found) == [
        "create leases.coordination.k8s.io in berth-system",
        "create pods/binding",
        "create pods/eviction",
        "patch devices.scheduling.koordinator.sh",
        "patch devices.scheduling.koordinator.sh/status",
    ]
    subresources = {asked.get("subresource", "") for asked in judge.asked}
    assert {"", "status", "binding", "eviction"} == subresources


def test_the_guard_that_is_looked_for_is_that_of_the_manifests() -> None:
    binding = next(
        each
        for each in yaml.safe_load_all((K8S / "guard.yaml").read_text())
        if each["kind"] == "ValidatingAdmissionPolicyBinding"
    )
    assert binding["metadata"]["name"] == checks.GUARD
    assert checks.WRITER_ACCOUNT in (K8S / "guard.yaml").read_text()


async def test_a_server_that_judges_no_rights_refuses_none() -> None:
    judge: Any = Judge({"create pods"}, status=404)
    assert await rights.refused(judge, rights.WRITER) == []


def test_the_definitions_are_those_of_the_kinds_we_use() -> None:
    assert {DEVICES, ELASTIC_QUOTAS, POD_GROUPS, RESERVATIONS} <= {resource_of(each) for each in definitions()}


def test_a_target_becomes_settings_and_a_command(tmp_path: Path) -> None:
    file = tmp_path / "my config"
    file.touch()
    target = target_of(None, file, "dev")
    assert target is not None
    assert target.environment() == {"BERTH_KUBECONFIG": str(file), "BERTH_KUBE_CONTEXT": "dev"}
    assert target.kubectl("get", "pods") == f"kubectl --kubeconfig '{file}' --context dev get pods"
    assert target_of(None, None, None) is None
    url = target_of("http://127.0.0.1:1", None, None)
    assert url == Target(url="http://127.0.0.1:1")
    assert url.environment() == {"BERTH_KUBE_URL": "http://127.0.0.1:1"}


def test_a_context_without_a_kubeconfig_is_refused() -> None:
    with pytest.raises(CliError, match="--context needs --kubeconfig"):
        target_of("http://127.0.0.1:1", None, "dev")


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [("0123456789abcdef", "this-host"), ("another", ""), ("", "")],
    ids=["same", "other", "none"],
)
async def test_this_machine_is_a_node_by_name_and_machine_id(
    theirs: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from berth.simcluster.server import serve

    (tmp_path / "machine-id").write_text("0123456789abcdef\n")
    monkeypatch.setattr("berth.cli.cluster.checks.MACHINE_ID", tmp_path / "machine-id")
    monkeypatch.setattr("socket.gethostname", lambda: "This-Host")
    async with serve() as sim:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "this-host"},
            "status": {"nodeInfo": {"machineID": theirs}},
        }
        target = Target(url=sim.url)
        async with target.client() as kube:
            from berth.kube import NODES

            assert (await kube.create(NODES, "", node)).ok
        assert await node_of_this_machine(target) == expected
