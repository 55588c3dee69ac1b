"""Random worlds from a seed: small, with few words to choose from, so that things meet.

A world draws which of the features that are switched on it has, and each pod which of those it uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, Final

from tests.parity import owners, peers, volumes
from tests.parity.world import NAMESPACES, Manifest, World

FEATURES: Final = (
    "taints",
    "cordon",
    "affinity",
    "preferred",
    "ports",
    "requests",
    "extended",
    "images",
    "spread",
    "softspread",
    "peers",
    "preferredpeers",
    "volumes",
    "disks",
    "preemption",
    "budgets",
    "nominated",
    "gates",
    "owners",
)
USED: Final = 0.8
"""How likely a pod uses a feature of its world."""
SHARES: Final = (0.1, 0.2, 0.4)
"""How much of the features a world has."""
OFTEN: Final = {"preemption": 0.65, "nominated": 0.4, "budgets": 0.4}
"""How likely a world has these."""
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
MI: Final = 1 << 20
IMAGES: Final = ("app:1", "app:2", "db", "registry.example/big:9")
WIDGET: Final = "example.com/widget"
GADGET: Final = "example.com/gadget"
PRIORITIES: Final = {"lowest": -50, "low": -5, "middle": 100, "upper": 500, "high": 1000, "patient": 2000, "mild": 150}
NEVER: Final = ("patient", "mild")
"""The priority classes that make nobody leave."""


def standing() -> list[Manifest]:
    """What stays on the server: priority classes, a runtime class with an overhead."""
    found: list[Manifest] = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never" if name in NEVER else "PreemptLowerPriority",
        }
        for name, value in PRIORITIES.items()
    ]
    overhead = {"podFixed": {"cpu": "150m", "memory": "64Mi"}}
    meta = {"name": "heavy"}
    return [
        *found,
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": meta,
            "handler": "heavy",
            "overhead": overhead,
        },
    ]


def world_of(seed: int, number: int, features: tuple[str, ...] = FEATURES) -> World:
    """The world of this number; the same arguments make the same world."""
    rng = Random(f"{seed}.{number}")
    share = rng.choice(SHARES)
    drawn = tuple(each for each in FEATURES if rng.random() < OFTEN.get(each, share))
    has = tuple(each for each in drawn if each in features) or (rng.choice(features),)
    return _Making(rng, frozenset(has)).world(f"{seed}.{number}", has)


class _Making:
    def __init__(self, rng: Random, has: frozenset[str]) -> None:
        self.rng = rng
        self.has = has
        self.sizes = {image: rng.choice((10, 90, 400, 2500)) * MI for image in IMAGES}
        self.is_crowded = "preemption" in has and rng.random() < 0.5
        alike = rng.random() < 0.15
        self.starts = [rng.randint(0, 4) for _ in range(60)] if alike else rng.sample(range(3600), 60)
        """When bound pods have started, in seconds; in some worlds several at once."""

    def world(self, name: str, features: tuple[str, ...]) -> World:
        rng = self.rng
        spaces: list[Manifest] = [self.namespace(each) for each in NAMESPACES]
        size = rng.randint(2, 6) if self.is_crowded else rng.randint(3, 12)
        nodes = [self.node(f"n{number}") for number in range(size)]
        names = [each["metadata"]["name"] for each in nodes]
        count = rng.randint(2, 6) * len(nodes) if self.is_crowded else rng.randint(0, rng.choice((8, 15, 30)))
        bound = [self.pod(f"b{number}", rng.choice(names)) for number in range(count)]
        pending = [self.pod(f"p{number}") for number in range(rng.randint(1, 6))]
        if self.chance(0.9):
            _keep_ports_apart(bound)
        if "preemption" in self.has:
            self.leave_some(bound)
        if "nominated" in self.has:
            self.nominate(pending, names)
        stored: list[Manifest] = []
        if "volumes" in self.has:
            stored = volumes.attach(rng, nodes, bound, pending)
        if "disks" in self.has:
            volumes.attach_disks(rng, [*bound, *pending])
        if "owners" in self.has:
            stored += owners.attach(rng, [*bound, *pending])
        budgets = [self.budget(f"budget{number}") for number in range(3)] if "budgets" in self.has else []
        return World(name, features, (*spaces, *stored, *nodes, *budgets, *bound), tuple(pending))

    def chance(self, probability: float = USED) -> bool:
        return self.rng.random() < probability

    def uses(self, feature: str) -> bool:
        return feature in self.has and self.chance()

    # --- nodes -------------------------------------------------------------------------------------------------------

    def namespace(self, name: str) -> Manifest:
        labels = {"team": self.rng.choice(("red", "blue"))} if self.chance() else {}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}

    def node(self, name: str) -> Manifest:
        rng = self.rng
        labels = {HOSTNAME: name, "disk": rng.choice(("ssd", "hdd"))}
        if self.chance(0.9):
            labels[ZONE] = rng.choice(("za", "zb", "zc"))
        if self.chance(0.7):
            labels["gen"] = rng.choice(("1", "2", "3", "4", "old"))
        amounts = {
            "cpu": rng.choice(("2", "4", "3") if self.is_crowded else ("2", "4", "8", "16", "1500m")),
            "memory": rng.choice(("4Gi", "8Gi", "16Gi", "32Gi")),
            "ephemeral-storage": "20Gi",
            "pods": str(rng.choice((3, 8, 20, 20))),
        }
        if "extended" in self.has:
            if self.chance(0.6):
                amounts[WIDGET] = str(rng.randint(0, 4))
            if self.chance(0.4):
                amounts[GADGET] = str(rng.randint(1, 3))
        spec: dict[str, Any] = {}
        if self.uses("taints"):
            spec["taints"] = [self.taint() for _ in range(rng.randint(1, 2))]
            unique = {(each["key"], each["effect"]): each for each in spec["taints"]}
            spec["taints"] = list(unique.values())
        if "cordon" in self.has and self.chance(0.2):
            spec["unschedulable"] = True
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status: dict[str, Any] = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        if "images" in self.has:
            status["images"] = [
                {"names": [_tagged(image)], "sizeBytes": size} for image, size in self.sizes.items() if self.chance(0.5)
            ]
        meta = {"name": name, "labels": labels}
        return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}

    def taint(self) -> dict[str, str]:
        rng = self.rng
        effect = rng.choice(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"))
        return {"key": rng.choice(("role", "flaky")), "value": rng.choice(("", "db", "web")), "effect": effect}

    # --- pods --------------------------------------------------------------------------------------------------------

    def pod(self, name: str, node: str = "") -> Manifest:
        rng = self.rng
        labels = {"app": rng.choice(("web", "db", "cache")), "rev": rng.choice(("1", "2"))}
        if self.chance(0.5):
            labels["tier"] = rng.choice(("a", "b"))
        spec: dict[str, Any] = {"containers": [self.container(f"c{number}") for number in range(rng.choice((1, 1, 2)))]}
        if self.uses("requests"):
            self.shape(spec)
        if self.uses("ports"):
            sidecars = [each for each in spec.get("initContainers", ()) if "restartPolicy" in each]
            self.ports([*spec["containers"], *sidecars])
        if self.uses("taints"):
            spec["tolerations"] = [self.toleration() for _ in range(rng.randint(1, 2))]
        if "cordon" in self.has and self.chance(0.3):
            spec.setdefault("tolerations", []).append(
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
            )
        if "affinity" in self.has or "preferred" in self.has:
            self.node_affinity(spec)
        if self.uses("spread") or self.uses("softspread"):
            constraints = peers.spread(rng, hard="spread" in self.has, soft="softspread" in self.has)
            spec["topologySpreadConstraints"] = constraints
        if self.uses("peers"):
            peers.require(rng, spec)
        if self.uses("preferredpeers"):
            peers.prefer(rng, spec)
        if self.uses("preemption"):
            spec["priorityClassName"] = rng.choice(HELD if node else tuple(PRIORITIES))
        status: dict[str, Any] = {}
        if node:
            spec["nodeName"] = node
            status = self.running(int(name[1:]))
        elif "gates" in self.has and self.chance(0.2):
            spec["schedulingGates"] = [{"name": "example.com/wait"}]
        meta = {"name": name, "namespace": rng.choice(NAMESPACES), "labels": labels}
        is_running = status.get("phase") == "Running"
        if is_running and (self.has & {"spread", "softspread", "peers"}) and self.chance(0.15):
            meta["annotations"] = {LEAVING: "true"}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        return {**made, "status": status} if status else made

    def running(self, number: int) -> dict[str, Any]:
        """The status of a bound pod."""
        minutes, seconds = divmod(self.starts[number], 60)
        phase = "Succeeded" if self.chance(0.02) else "Running"
        return {"phase": phase, "startTime": f"2026-01-01T00:{minutes:02d}:{seconds:02d}Z"}

    def leave_some(self, bound: list[Manifest]) -> None:
        """Some bound pods are leaving, for the sake of others or by themselves; one has not started."""
        for each in bound:
            if each["status"]["phase"] == "Running" and self.chance(0.06):
                each["metadata"].setdefault("annotations", {})[LEAVING] = "true"
                if self.chance(0.5):
                    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
                    each["status"]["conditions"] = [condition]
        if bound and self.chance(0.2):
            self.rng.choice(bound)["status"] = {"phase": "Pending"}

    def nominate(self, pending: list[Manifest], nodes: list[str]) -> None:
        """Some pods come with a node that they were nominated to before."""
        for each in pending:
            may = "schedulingGates" not in each["spec"] and each["spec"].get("priorityClassName") not in NEVER
            if may and self.chance(0.25):
                each["status"] = {"nominatedNodeName": self.rng.choice(nodes)}

    def container(self, name: str, *, small: bool = False) -> dict[str, Any]:
        rng = self.rng
        requests = {}
        if self.chance(0.8):
            requests["cpu"] = rng.choice(("0", "100m", "500m", "250m") if small else ("100m", "500m", "1", "1500m"))
        if self.chance(0.8):
            requests["memory"] = rng.choice(("64Mi", "1Gi") if small else ("64Mi", "512Mi", "1Gi", "3Gi"))
        if not small and self.chance(0.1):
            requests["ephemeral-storage"] = rng.choice(("1Gi", "15Gi"))
        limits = {}
        if not small and self.uses("extended"):
            which = rng.choice((WIDGET, GADGET))
            requests[which] = limits[which] = str(rng.randint(1, 3))
        made: dict[str, Any] = {"name": name, "image": rng.choice(IMAGES)}
        resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
        if resources:
            made["resources"] = resources
        return made

    def ports(self, containers: list[dict[str, Any]]) -> None:
        """Host ports for a pod, none of them twice."""
        rng = self.rng
        made = [self.port() for _ in range(rng.randint(1, 3))]
        unique = {(each["hostPort"], each["protocol"], each.get("hostIP", "")): each for each in made}
        for each in unique.values():
            rng.choice(containers).setdefault("ports", []).append(each)

    def port(self) -> dict[str, Any]:
        rng = self.rng
        number = rng.choice((8080, 8081, 9000))
        made = {"containerPort": number, "hostPort": number, "protocol": rng.choice(("TCP", "TCP", "UDP"))}
        address = rng.choice(("", "", "127.0.0.1", "10.0.0.1", "0.0.0.0"))
        return {**made, "hostIP": address} if address else made

    def shape(self, spec: dict[str, Any]) -> None:
        """Init containers, sidecars, requests of the pod level, an overhead."""
        rng = self.rng
        init = []
        for number in range(rng.randint(0, 3)):
            made = self.container(f"i{number}", small=self.chance(0.6))
            if self.chance(0.5):
                made["restartPolicy"] = "Always"
            init.append(made)
        if init:
            spec["initContainers"] = init
        if self.chance(0.3):
            spec["resources"] = {"requests": {"cpu": "8", "memory": "14Gi"}}
        if self.chance(0.2):
            spec["runtimeClassName"] = "heavy"

    def toleration(self) -> dict[str, Any]:
        rng = self.rng
        made: dict[str, Any] = {}
        if self.chance(0.9):
            made["key"] = rng.choice(("role", "flaky"))
        if self.chance(0.4) or "key" not in made:
            made["operator"] = "Exists"
        elif self.chance(0.8):
            made["value"] = rng.choice(("db", "web"))
        if self.chance(0.5):
            made["effect"] = rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        return made

    def node_affinity(self, spec: dict[str, Any]) -> None:
        rng = self.rng
        found: dict[str, Any] = {}
        if "affinity" in self.has:
            if self.chance(0.25):
                spec["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd"))}
            if self.chance(0.4):
                terms = [self.node_term() for _ in range(rng.randint(1, 2))]
                found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if "preferred" in self.has and self.chance(0.5):
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.choice((1, 10, 100)), "preference": self.node_term()} for _ in range(rng.randint(1, 3))
            ]
        if found:
            spec.setdefault("affinity", {})["nodeAffinity"] = found

    def node_term(self) -> dict[str, Any]:
        rng = self.rng
        term: dict[str, Any] = {}
        if self.chance(0.85):
            term["matchExpressions"] = [self.requirement() for _ in range(rng.randint(1, 2))]
        if self.chance(0.2) or not term:
            operator = rng.choice(("In", "In", "NotIn"))
            field = {"key": "metadata.name", "operator": operator, "values": [f"n{rng.randint(0, 6)}"]}
            term["matchFields"] = [field]
        return term

    def requirement(self) -> dict[str, Any]:
        rng = self.rng
        if self.chance(0.3):
            return {"key": "gen", "operator": rng.choice(("Gt", "Lt")), "values": [rng.choice(("1", "2", "3"))]}
        key, values = rng.choice((("disk", ("ssd", "hdd")), (ZONE, ("za", "zb", "zc")), ("gen", ("1", "2", "old"))))
        operator = rng.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        return {"key": key, "operator": operator, "values": sorted(rng.sample(values, rng.randint(1, 2)))}

    def budget(self, name: str) -> Manifest:
        rng = self.rng
        spec = {"minAvailable": 1, "selector": peers.selector(rng)}
        names = [f"b{number}" for number in range(20) if self.chance(0.05)]
        disrupted = {"disruptedPods": dict.fromkeys(names, "2026-01-01T00:00:00Z")} if names else {}
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": rng.choice(NAMESPACES)},
            "spec": spec,
            "status": {"disruptionsAllowed": rng.choice((0, 0, 1, 2)), "observedGeneration": 1}
            | {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, **disrupted},
        }


HELD: Final = ("lowest", "low", "low", "middle", "upper")
"""The priority classes of bound pods."""
LEAVING: Final = "parity/leaving"
"""Annotation of a bound pod that is deleted, and stays for its grace period."""


def _keep_ports_apart(bound: Iterable[Manifest]) -> None:
    """A host port that an earlier pod of the node has is left out."""
    taken: set[tuple[object, ...]] = set()
    for pod in bound:
        spec, mine = pod["spec"], set()
        for container in [*spec["containers"], *spec.get("initContainers", ())]:
            ports = container.get("ports", [])
            keys = {id(each): (spec["nodeName"], *host_port(each)) for each in ports}
            container["ports"] = [each for each in ports if keys[id(each)] not in taken]
            mine.update(keys.values())
        taken |= mine


def host_port(port: Mapping[str, Any]) -> tuple[str, int, str]:
    """Protocol, number and address of a container's port on its node."""
    return port.get("protocol", "TCP"), port.get("hostPort", 0), port.get("hostIP") or "0.0.0.0"


def _tagged(image: str) -> str:
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"
