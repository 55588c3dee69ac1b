"""Manifests that ask for the impossible, as the API server takes them: through cluster-watcher's conversion and a whole
solver. Each is refused with a reason that names what is wrong, and whoever waits beside it is placed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from berth.cluster_watcher.kinds import KINDS
from berth.contracts import names, subjects
from berth.contracts.state import Synced

KIND = {kind.prefix: kind for kind in KINDS}
HOST = "kubernetes.io/hostname"
NODES = 3
WAITS = "WaitForFirstConsumer"


class Cluster:
    """A solver that is fed with manifests."""

    def __init__(self, solving: type[Any]) -> None:
        self.run = solving()
        for at in range(NODES):
            self.run.node(f"n{at}", labels={HOST: f"n{at}"})
        for kind in KINDS:
            self.run.state(subjects.synced_key(kind.plural), Synced(kind=kind.plural, version=1, complete=True))
        self.run.complete()

    def see(self, prefix: str, name: str, spec: dict[str, Any] | None = None, **fields: Any) -> None:
        kind = KIND[prefix]
        self.run.version += 1
        meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(self.run.version)}
        whole = {"metadata": meta | fields.pop("metadata", {}), **fields} | ({} if spec is None else {"spec": spec})
        item = msgspec.json.decode(json.dumps(whole).encode(), type=kind.item)
        self.run.state(kind.key("default", name), kind.convert(item, self.run.version))

    def pod(self, name: str, **spec: Any) -> None:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        self.see("pod", name, {"schedulerName": names.SCHEDULER_NAME, "containers": [container], **spec})

    def claim(self, name: str, storage_class: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        asks = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        self.see(
            "persistentvolumeclaim",
            name,
            {"storageClassName": storage_class, **asks, **spec},
            metadata={"annotations": annotations or {}},
        )

    def volume(self, name: str, host: str, claim: str) -> None:
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [host]}]}]
        self.see(
            "persistentvolume",
            name,
            {
                "storageClassName": "local",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "claimRef": {"namespace": "default", "name": claim, "uid": f"uid-{claim}"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            },
        )

    def reasons(self) -> list[tuple[str, str]]:
        """Why the pod `bad` is refused, in a batch with two others that are placed."""
        self.pod("before")
        self.pod("later")
        solution = self.run.round()
        assert set(self.run.nodes_of(solution)) == {"before", "later"}
        (refusal,) = solution.refusals
        assert refusal.candidate.name == ("default", "bad")
        return [(reason.code, reason.message) for reason in refusal.reasons]


@pytest.fixture
def cluster(solving: type[Any]) -> Cluster:
    return Cluster(solving)


def required(which: str, **term: Any) -> dict[str, Any]:
    return {which: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(**more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "a"}}
    rule = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": HOST, "labelSelector": selector}
    return {"topologySpreadConstraints": [rule | more]}


NEAR = {"operator": "Near", "key": "app"}
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({"nodeSelector": {"no": "such"}}, "NodeAffinity", "node(s) didn't match Pod's node affinity/selector"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}
                            ]
                        }
                    }
                }
            },
            "invalid",
            f"{TERMS}.matchExpressions[0].values: ",
        ),
        (
            {"affinity": required("podAffinity", topologyKey="no/such", labelSelector={"matchLabels": {"app": "a"}})},
            "InterPodAffinity",
            "node(s) didn't match pod affinity rules",
        ),
        (
            {"affinity": required("podAntiAffinity", topologyKey=HOST, labelSelector={"matchExpressions": [NEAR]})},
            "invalid",
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector"
            ".matchExpressions[0].operator: ",
        ),
        (
            spread(topologyKey="no/such"),
            "PodTopologySpread",
            "node(s) didn't match pod topology spread constraints (missing required label)",
        ),
        (
            spread(labelSelector={"matchExpressions": [NEAR]}),
            "invalid",
            "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: ",
        ),
        (spread(whenUnsatisfiable="Perhaps"), "invalid", "spec.topologySpreadConstraints[0].whenUnsatisfiable: "),
    ],
)
def test_selectors_and_keys(cluster: Cluster, spec: dict[str, Any], code: str, message: str) -> None:
    cluster.pod("bad", **spec)
    ((found, text), *_) = cluster.reasons()
    assert found == code
    assert text.startswith(message)


def mounts(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}


BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def missing(cluster: Cluster) -> None:
    """There is no such claim."""


def lost(cluster: Cluster) -> None:
    cluster.claim("c", "local", annotations=BOUND, volumeName="gone")


def bound_elsewhere(cluster: Cluster) -> None:
    """To a volume that no node reaches."""
    cluster.claim("c", "local", annotations=BOUND, volumeName="v")
    cluster.volume("v", "another", "c")


def without_provisioner(cluster: Cluster) -> None:
    cluster.see("storageclass", "local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode=WAITS)
    cluster.claim("c", "local")


def with_nameless_provisioner(cluster: Cluster) -> None:
    cluster.see("storageclass", "local", provisioner="", volumeBindingMode=WAITS)
    cluster.claim("c", "local")


def with_unusable_selector(cluster: Cluster) -> None:
    without_provisioner(cluster)
    cluster.claim("c", "local", selector={"matchExpressions": [NEAR]})


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (missing, 'persistentvolumeclaim "c" not found'),
        (lost, 'persistentvolume "gone" not found'),
        (bound_elsewhere, "node(s) didn't match PersistentVolume's node affinity"),
        (without_provisioner, "node(s) didn't find available persistent volumes to bind"),
        (with_nameless_provisioner, "node(s) didn't find available persistent volumes to bind"),
        (
            with_unusable_selector,
            'persistentvolumeclaim "c": spec.selector.matchExpressions[0].operator: '
            "'Near' is none of In, NotIn, Exists, DoesNotExist",
        ),
    ],
    ids=lambda each: each.__name__ if callable(each) else each[:20],
)
def test_claims_and_classes(cluster: Cluster, prepare: Any, message: str) -> None:
    prepare(cluster)
    cluster.pod("bad", **mounts("c"))
    assert message in [text for _, text in cluster.reasons()]


def test_a_configuration_with_a_wrong_plugin_stops_nobody(cluster: Cluster) -> None:
    """It is named, what held before goes on holding, and so does the next one that can be used."""
    cluster.run.configure(plugins={"multiPoint": {"disabled": [{"name": "NodeAffinity"}]}})
    cluster.run.configure(plugins={"filter": {"enabled": [{"name": "NodeHoroscope"}]}})
    (problem,) = cluster.run.cluster.configuration.problems
    assert problem.field == "profiles[0].plugins.filter.enabled[0].name"
    cluster.pod("selecting", nodeSelector={"no": "such"})
    assert set(cluster.run.nodes_of(cluster.run.round())) == {"selecting"}
    cluster.run.configure()
    assert cluster.run.cluster.configuration.problems == ()
    cluster.pod("bad", nodeSelector={"no": "such"})
    assert cluster.reasons()[0][0] == "NodeAffinity"
