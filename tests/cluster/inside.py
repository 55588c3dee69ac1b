"""What is within the node: a pod with CPUs of its own, an agent that is replaced while containers are created, cards
that a device plugin gives out beside those that go by minor; and the CPUs given back before Berth leaves.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.cluster import MANIFESTS, Cluster
from tests.cluster.installing import NODES, until_ready
from tests.cluster.listening import Outside
from tests.cluster.node import NAME, PAUSE_IMAGE
from tests.cluster.placing import HOME, done, note, placed_by_berth, refusal
from tests.e2e.container_runtime import processes_with, status_of
from tests.e2e.device_plugin import DevicePlugin

from berth.contracts import names
from berth.rules.cpus.cpuset import read_cpuset
from berth.vendors.sums import LABELS

OVERLAY = MANIFESTS / "inside"
AGENT = "daemonset/node-qos-enforcer"
TOPOLOGY = f"/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies/{NAME}"
DEVICE = f"/apis/scheduling.koordinator.sh/v1alpha1/devices/{NAME}"
EVERY = frozenset(os.sched_getaffinity(0))
DEVICE_FILES = "/var/run/koordlet/xpu-device-infos"
CARDS = ("card-0", "card-1", "card-2")
LATE = [f"late-{number}" for number in range(6)]
SMALL = {"cpu": "5m", "memory": "4Mi"}


def look_inside(cluster: Cluster, outside: Outside) -> None:
    """Everything, in an order in which each needs what was before."""
    cluster.kubectl("apply", "--server-side", "-k", str(OVERLAY))
    until_ready(cluster)
    cluster.until(lambda: cluster.get(TOPOLOGY), "what the agent says of the node's CPUs")
    cluster.report.step("kubectl apply -k with k8s/components/inside: the agent says where the node's CPUs lie")
    own = _own_cpus(cluster, outside)
    _agent_is_replaced(cluster, own)
    _cards(cluster, outside)
    _give_back(cluster)


def _own_cpus(cluster: Cluster, outside: Outside) -> frozenset[int]:
    """A pod of class LSR has a CPU to itself, and the others have not."""
    (plain,) = _run(cluster, "plain")
    placed_by_berth([plain])
    cluster.until(lambda: _cpus("plain") == EVERY, f"a plain pod on every CPU; it is on {sorted(_cpus('plain'))}")
    pods = _run(
        cluster,
        "own",
        requests={"cpu": "1", "memory": "8Mi"},
        labels={names.LABEL_QOS: "LSR", names.LABEL_PRIORITY_CLASS: "koord-prod"},
    )
    placed_by_berth(pods)
    outside.until_bound(pods)
    own = _read(json.loads(note(pods[0], names.ANNOTATION_RESOURCE_STATUS))["cpuset"])
    assert len(own) == 1
    _until_on(cluster, "own", own)
    _until_on(cluster, "plain", EVERY - own)
    cluster.report.step(
        f"pod of class LSR: runs on CPU {min(own)} (Cpus_allowed_list), another pod on {sorted(EVERY - own)}"
    )
    return own


def _agent_is_replaced(cluster: Cluster, own: frozenset[int]) -> None:
    """Containers are created before, while and after there is no agent."""
    for number, name in enumerate(LATE):
        _create(cluster, name)
        if number == 1:
            agent = cluster.pods(NODES)[0]["metadata"]["name"]
            cluster.kubectl("delete", "pod", agent, "-n", NODES, "--wait=false")
        time.sleep(0.5)
    for name in LATE:
        cluster.until_running(HOME, f"app={name}", 1)
    cluster.rolled_out(AGENT, NODES)
    for name in LATE:
        _until_on(cluster, name, EVERY - own)
    assert _cpus("own") == own
    cluster.report.step(f"agent deleted while {len(LATE)} pods are created: none of them is on that CPU in the end")
    done(cluster, *LATE)


def _cards(cluster: Cluster, outside: Outside) -> None:
    """Kubelet picks the cards of a device plugin; the others go by minor once it has said which it has picked."""
    with _cards_there(cluster):
        cluster.until(lambda: _offers(cluster, names.GPU_CORE) == 100 * len(CARDS), "the sums of the node's cards")
        with DevicePlugin(Path(f"/proc/{cluster.space.pid}/root"), names.NVIDIA_GPU, *CARDS):
            cluster.until(lambda: _offers(cluster, names.NVIDIA_GPU) == len(CARDS), "the plugin's count")
            cluster.report.step(f"{len(CARDS)} cards appear, and a device plugin that gives them out")
            one = SMALL | {names.NVIDIA_GPU: "1"}
            (theirs,) = _run(cluster, "theirs", requests=one, scheduler="default-scheduler")
            assert not note(theirs, names.ANNOTATION_PLAN), "it is kube-scheduler's"
            (ours,) = _run(cluster, "ours", requests=one)
            placed_by_berth([ours])
            assert not note(ours, names.ANNOTATION_DEVICE_ALLOCATED), "kubelet picks its card"
            picked = cluster.until(lambda: _picked(cluster, theirs, ours), "kubelet's word of the cards")
            cluster.report.step(
                "a pod of kube-scheduler and one of Berth's have a card each by the plugin; the Device says which"
            )
            half = SMALL | {names.GPU_CORE: "50", names.GPU_MEMORY_RATIO: "50"}
            _create(cluster, "share", requests=half)
            share = cluster.until(lambda: _bound(cluster, "share"), "the pod with half a card to be bound")
            placed_by_berth([share])
            outside.until_bound([share])
            (card,) = json.loads(note(share, names.ANNOTATION_DEVICE_ALLOCATED))["gpu"]
            assert card["minor"] not in picked
            _create(cluster, "late", requests=one)
            told = cluster.until(lambda: refusal(cluster, "app=late"), "a third pod by number to be refused")
            assert "does not know of" in told, told
            cluster.report.step(
                "half a card by minor beside them, of the third one; no other pod by number beside that"
            )
            done(cluster, "theirs", "ours", "share", "late")
    cluster.until(lambda: not cluster.get(DEVICE), "the Device to be gone")
    cluster.until(lambda: not _offers(cluster, names.GPU_CORE), "its sums to be gone")
    # They describe the machine, and stay while cards are away.
    cluster.kubectl("label", "node", NAME, *(f"{label}-" for label in LABELS))


def _give_back(cluster: Cluster) -> None:
    """As it is to be done before Berth is taken off a node."""
    cluster.kubectl("set", "env", AGENT, "-n", NODES, "BERTH_GIVE_BACK=true")
    cluster.rolled_out(AGENT, NODES)
    for name in ("own", "plain"):
        _until_on(cluster, name, EVERY)
    cluster.report.step("BERTH_GIVE_BACK=true: both pods have all CPUs again")
    done(cluster, "own", "plain")


# --- what is there ----------------------------------------------------------------------------------------------------


@contextmanager
def _cards_there(cluster: Cluster) -> Iterator[None]:
    """A device daemon writes down the cards of the node, as long as they are there."""
    entries = [
        {
            "vendor": "kunlun",
            "model": "P800",
            "uuid": card,
            "minor": str(minor),
            "resources": {"gpu-core": "100", "gpu-memory": "32Gi"},
            "topology": {"socketID": "0", "nodeID": "0", "pcieID": "pci0000:10", "busID": f"0000:1{minor}:00.0"},
            "status": {"healthy": True},
        }
        for minor, card in enumerate(CARDS)
    ]
    path = f"{DEVICE_FILES}/cards"
    cluster.space.run("tee", path, stdin=json.dumps(entries).encode())
    yield
    cluster.space.run("rm", path)


def _offers(cluster: Cluster, resource: str) -> int:
    return int(cluster.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"].get(resource, "0"))


def _picked(cluster: Cluster, *pods: dict[str, Any]) -> set[int]:
    """The minors that kubelet has picked for these, a card each, once the Device says it of all."""
    text = cluster.get(DEVICE)["metadata"]["annotations"].get(names.ANNOTATION_KUBELET_CARDS, "{}")
    cards = json.loads(text)
    minors = {minor for pod in pods for minor in cards.get(pod["metadata"]["uid"], ())}
    return minors if len(minors) == len(pods) else set()


def _bound(cluster: Cluster, name: str) -> dict[str, Any] | None:
    (pod,) = cluster.pods(HOME, f"app={name}")
    return pod if pod["spec"].get("nodeName") else None


def _run(cluster: Cluster, name: str, **more: Any) -> list[dict[str, Any]]:
    _create(cluster, name, **more)
    return cluster.until_running(HOME, f"app={name}", 1)


def _create(
    cluster: Cluster,
    name: str,
    *,
    requests: Mapping[str, str] = SMALL,
    labels: Mapping[str, str] = {},
    scheduler: str = names.SCHEDULER_NAME,
) -> None:
    container = {
        "name": "main",
        "image": PAUSE_IMAGE,
        "imagePullPolicy": "Never",
        "env": [{"name": "MARK", "value": f"inside-{name}"}],
        "resources": {"requests": dict(requests), "limits": dict(requests)},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": HOME, "labels": {"app": name, **labels}},
        "spec": {"schedulerName": scheduler, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    cluster.call("POST", f"/api/v1/namespaces/{HOME}/pods", pod)


def _until_on(cluster: Cluster, name: str, cpus: frozenset[int]) -> None:
    """Return once the container of a pod runs on these CPUs and no other."""
    cluster.until(lambda: _cpus(name) == cpus, f"{name} to run on CPUs {sorted(cpus)}")


def _cpus(name: str) -> frozenset[int]:
    """Where the kernel lets the container of a pod run; nowhere while it has no process."""
    for process in processes_with(f"MARK=inside-{name}"):
        return _read(status_of(process, "Cpus_allowed_list"))
    return frozenset()


def _read(text: str) -> frozenset[int]:
    found = read_cpuset(text, "cpus")
    assert isinstance(found, frozenset), found
    return found
