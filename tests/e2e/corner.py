"""A part of the cluster that one test has for itself, so that the tests of a file share the processes and nothing else.

It is a namespace, and nodes that only its pods select. What a test makes in it goes away with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.e2e.objects import (
    DEVICES,
    NODES,
    POD_GROUPS,
    PODS,
    QUOTAS,
    RESERVATIONS,
    TOPOLOGIES,
    Json,
    gpu,
    refusal_of,
)
from tests.e2e.waiting import WAIT_S, until

from berth.contracts import names

if TYPE_CHECKING:
    from tests.e2e.whole import Whole

KOORD_SCHEDULER = "system:serviceaccount:koordinator-system:koord-scheduler"
"""Besides cluster-writer the only scheduler that may write what a pod was given (k8s/base/guard.yaml)."""
CORNER = "test.berth.sh/corner"
"""The label of a corner's nodes; its value is the namespace."""


class Corner:
    """Objects of one test. Nodes and pods are named by the test; a node's real name carries the corner's as well."""

    def __init__(self, whole: Whole, name: str) -> None:
        self.whole = whole
        self.namespace = name
        self._nodes: list[str] = []
        self._others: list[str] = []

    # --- nodes -------------------------------------------------------------------------------------------------------

    async def node(
        self,
        name: str,
        *,
        cpu: str = "8",
        memory: str = "32Gi",
        pods: str = "110",
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Json] = (),
        unschedulable: bool = False,
    ) -> str:
        """Create a node and, with GPUs of 16 GiB, its Device; the node's real name."""
        full = f"{self.namespace}-{name}"
        amounts = {"cpu": cpu, "memory": memory, "pods": pods}
        node: Json = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": full, "labels": {CORNER: self.namespace, **(labels or {})}},
            "spec": {
                **({"taints": list(taints)} if taints else {}),
                **({"unschedulable": True} if unschedulable else {}),
            },
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        if gpus:
            await self.device(name, [gpu(minor, f"GPU-{full}-{minor}") for minor in range(gpus)])
        await self.whole.call("POST", NODES, node)
        self._nodes.append(full)
        return full

    async def device(
        self,
        node: str,
        devices: Sequence[Json],
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> str:
        """Create the Device of a node; its real name."""
        full = f"{self.namespace}-{node}"
        manifest = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Device",
            "metadata": {
                "name": full,
                "labels": {names.LABEL_GPU_VENDOR: "nvidia", **(labels or {})},
                "annotations": dict(annotations or {}),
            },
            "spec": {"devices": list(devices)},
        }
        await self.whole.call("POST", DEVICES, manifest)
        self._others.append(f"{DEVICES}/{full}")
        return full

    async def topology(self, node: str, zones: int = 2, cores: int = 4, policy: str = "None") -> None:
        """Create the NodeResourceTopology of a node: zones of so many cores with two CPUs each, and 16 GiB."""
        place = [(2 * core + thread, core, core // cores) for core in range(zones * cores) for thread in range(2)]
        detail = [{"id": cpu, "core": core, "socket": zone, "node": zone} for cpu, core, zone in place]
        amounts = {"cpu": str(2 * cores), "memory": "16Gi"}
        listed = [
            {"name": name, **dict.fromkeys(("capacity", "allocatable", "available"), text)}
            for name, text in amounts.items()
        ]
        manifest = {
            "apiVersion": "topology.node.k8s.io/v1alpha1",
            "kind": "NodeResourceTopology",
            "metadata": {
                "name": f"{self.namespace}-{node}",
                "annotations": {names.ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})},
            },
            "topologyPolicies": [policy],
            "zones": [{"name": f"node-{zone}", "type": "Node", "resources": listed} for zone in range(zones)],
        }
        await self.create(TOPOLOGIES, manifest)

    async def until_counted(self, node: str, gpus: int) -> None:
        """Return once the node's status shows its GPUs."""

        async def look() -> bool:
            allocatable = (await self.whole.call("GET", f"{NODES}/{node}"))["status"]["allocatable"]
            return allocatable.get(names.GPU_CORE) == str(100 * gpus)

        await until(look, f"{gpus} GPUs in the status of {node}")

    async def drop_node(self, full: str) -> None:
        """Delete a node."""
        await self.whole.call("DELETE", f"{NODES}/{full}")
        self._nodes.remove(full)

    # --- pods --------------------------------------------------------------------------------------------------------

    def manifest(
        self,
        name: str,
        requests: Mapping[str, str] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        scheduler: str = names.SCHEDULER_NAME,
        ports: Sequence[Json] = (),
        **spec: Any,
    ) -> Json:
        """A pod for this corner's nodes; by default half a core and 256 MiB."""
        amounts = {"cpu": "500m", "memory": "256Mi", **(requests or {})}
        container: Json = {"name": "main", "image": "workload", "resources": {"requests": amounts, "limits": amounts}}
        if ports:
            container["ports"] = list(ports)
        selector = {CORNER: self.namespace, **spec.pop("nodeSelector", {})}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": dict(labels or {}),
                "annotations": dict(annotations or {}),
            },
            "spec": {"schedulerName": scheduler, "nodeSelector": selector, "containers": [container], **spec},
        }

    async def pod(self, name: str, requests: Mapping[str, str] | None = None, **more: Any) -> str:
        """Create a pod; its name."""
        user = KOORD_SCHEDULER if more.get("scheduler") == "koord-scheduler" else ""
        await self.whole.call("POST", PODS.format(self.namespace), self.manifest(name, requests, **more), user=user)
        return name

    async def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        path = f"{PODS.format(self.namespace)}/{name}"
        await self.whole.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})

    async def see(self, name: str) -> Json:
        """The pod as it is."""
        return await self.whole.call("GET", f"{PODS.format(self.namespace)}/{name}")

    async def bound(self, *pods: str, timeout_s: float = WAIT_S) -> list[Json]:
        """The pods, once all of them have a node."""
        found: dict[str, Json] = {}

        async def look() -> bool:
            for pod in await self.whole.items(PODS.format(self.namespace)):
                if pod["spec"].get("nodeName"):
                    found[pod["metadata"]["name"]] = pod
            return set(pods) <= set(found)

        try:
            await until(look, f"nodes for {pods}", timeout_s=timeout_s)
        except AssertionError as error:
            said = {name: (await self.whole.why(self.namespace, name)).message for name in set(pods) - set(found)}
            raise AssertionError(f"{error}; the solver says {said}") from None
        return [found[name] for name in pods]

    async def decided(self, name: str) -> str:
        """The node that a pod is decided for, while nobody binds it."""

        async def look() -> str:
            answer = await self.whole.why(self.namespace, name)
            return answer.node if answer.outcome == "decided" else ""

        return await until(look, f"a decision on {name}")

    async def refused(self, name: str, *texts: str, timeout_s: float = WAIT_S) -> str:
        """The message of the pod's condition, once it holds all of the texts."""
        said = ""

        async def look() -> bool:
            nonlocal said
            pod = await self.see(name)
            assert not pod["spec"].get("nodeName"), f"{name} was placed on {pod['spec']['nodeName']}"
            said = refusal_of(pod)
            return bool(said) and all(text in said for text in texts)

        try:
            await until(look, f"{name} to be told {texts}", timeout_s=timeout_s)
        except AssertionError as error:
            why = await self.whole.why(self.namespace, name)
            raise AssertionError(f"{error}; it was told {said!r}, the solver says {why.message!r}") from None
        return said

    async def placed_now(self, name: str = "canary", requests: Mapping[str, str] | None = None) -> None:
        """A pod with nothing wrong with it is placed; it is gone afterwards."""
        await self.pod(name, requests or {"cpu": "10m", "memory": "1Mi"})
        await self.bound(name)
        await self.delete_pod(name)

    # --- others ------------------------------------------------------------------------------------------------------

    async def pod_group(self, name: str, members: int, annotations: Mapping[str, str] | None = None) -> None:
        """Create a PodGroup."""
        manifest = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": self.namespace, "annotations": dict(annotations or {})},
            "spec": {"minMember": members},
        }
        await self.create(POD_GROUPS.format(self.namespace), manifest)

    async def quota(
        self,
        name: str,
        least: Mapping[str, str],
        most: Mapping[str, str],
        *,
        parent: str = "",
        is_parent: bool = False,
    ) -> str:
        """Create an ElasticQuota; its name, which carries the corner's."""
        full = f"{self.namespace}-{name}"
        labels = {names.LABEL_QUOTA_IS_PARENT: json.dumps(is_parent)}
        if parent:
            labels[names.LABEL_QUOTA_PARENT] = parent
        manifest = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": full, "namespace": self.namespace, "labels": labels},
            "spec": {"min": dict(least), "max": dict(most)},
        }
        await self.create(QUOTAS.format(self.namespace), manifest)
        return full

    async def reservation(
        self, name: str, requests: Mapping[str, str], *, labels: Mapping[str, str] | None = None, **spec: Any
    ) -> str:
        """Create a Reservation for pods labelled `owner: <name>`, `labels` are its template's; its real name."""
        full = f"{self.namespace}-{name}"
        template = self.manifest("template", requests)
        manifest = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": full},
            "spec": {
                "template": {
                    "metadata": {"namespace": self.namespace, "labels": dict(labels or {})},
                    "spec": template["spec"],
                },
                "owners": [{"labelSelector": {"matchLabels": {"owner": name}}}],
                **spec,
            },
        }
        await self.create(RESERVATIONS, manifest)
        return full

    async def phase(self, reservation: str, phase: str) -> Json:
        """The Reservation, once it is in this phase."""

        async def look() -> Json | None:
            found = await self.whole.call("GET", f"{RESERVATIONS}/{reservation}")
            return found if found.get("status", {}).get("phase") == phase else None

        found = await until(look, f"{reservation} to be {phase}")
        if phase == "Available":
            await self.whole.until_in_reserved(reservation)
        return found

    async def create(self, path: str, manifest: Json) -> None:
        """Create an object; it is deleted with the corner."""
        await self.whole.call("POST", path, manifest)
        self._others.append(f"{path}/{manifest['metadata']['name']}")

    async def clear(self) -> None:
        """Delete everything."""
        now = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        for pod in await self.whole.items(PODS.format(self.namespace)):  # some may be going away already
            await self.whole.try_call("DELETE", f"{PODS.format(self.namespace)}/{pod['metadata']['name']}", now)
        for path in reversed(self._others):
            await self.whole.try_call("DELETE", path)
        for node in list(self._nodes):
            await self.drop_node(node)
