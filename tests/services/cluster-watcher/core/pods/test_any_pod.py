"""No pod breaks the watcher, whatever it says."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.services.worlds.watcher.pod_items import PREFERRED, REQUIRED, read

from berth.cluster_watcher.core.packing import pack
from berth.contracts import names, state
from berth.contracts.codec import decode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
QUANTITY = st.text(alphabet="0123456789.-+eEkKMGTPimun", max_size=12) | st.integers() | JSON
RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", ""]) | st.text(), QUANTITY, max_size=4)
CONTAINER = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["c", "d"]) | JSON,
        "image": st.text(max_size=5) | JSON,
        "resources": st.fixed_dictionaries({}, optional={"requests": RESOURCES | JSON, "claims": JSON}) | JSON,
        "ports": st.lists(st.fixed_dictionaries({"hostPort": st.integers() | JSON}), max_size=2) | JSON,
        "restartPolicy": st.just("Always") | JSON,
    },
)
KEYS = [
    "nodeName schedulerName priority priorityClassName preemptionPolicy nodeSelector affinity tolerations hostNetwork",
    "topologySpreadConstraints volumes resourceClaims schedulingGates",
]
SELECTOR = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2) | JSON,
        "matchExpressions": st.lists(
            st.fixed_dictionaries(
                {}, optional={"key": st.just("a") | JSON, "operator": st.sampled_from(["In", "Exists"]) | JSON}
            )
            | JSON,
            max_size=2,
        ),
    },
)
TERM_OF = st.fixed_dictionaries(
    {},
    optional={
        "topologyKey": st.just("zone") | JSON,
        "labelSelector": SELECTOR | JSON,
        "namespaceSelector": SELECTOR | JSON,
        "namespaces": st.lists(st.text(max_size=5), max_size=2) | JSON,
        "matchLabelKeys": JSON,
        "maxSkew": st.integers(-2, 3) | JSON,
        "minDomains": st.integers(-2, 3) | JSON,
        "whenUnsatisfiable": st.just("DoNotSchedule") | JSON,
    },
)
PREFERRED_OF = st.fixed_dictionaries({"podAffinityTerm": TERM_OF | JSON}, optional={"weight": st.integers() | JSON})
PODS_OF = st.fixed_dictionaries(
    {}, optional={REQUIRED: st.lists(TERM_OF | JSON, max_size=2), PREFERRED: st.lists(PREFERRED_OF | JSON, max_size=2)}
)
SOURCES = "persistentVolumeClaim ephemeral gcePersistentDisk awsElasticBlockStore iscsi rbd flexVolume csi"
DISK = st.dictionaries(
    st.sampled_from(["claimName", "pdName", "volumeID", "iqn", "image", "pool", "monitors", "readOnly"]),
    st.text(max_size=5) | st.lists(st.text(max_size=5), max_size=2) | JSON,
    max_size=4,
)
STRUCTURED = {
    "affinity": st.fixed_dictionaries({}, optional={"podAffinity": PODS_OF | JSON, "podAntiAffinity": PODS_OF | JSON}),
    "topologySpreadConstraints": st.lists(TERM_OF | JSON, max_size=3),
    "volumes": st.lists(
        st.dictionaries(st.sampled_from(SOURCES.split()) | st.just("name"), DISK | JSON, max_size=3) | JSON, max_size=3
    ),
}
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(CONTAINER | JSON, max_size=3) | JSON,
        "initContainers": st.lists(CONTAINER, max_size=2) | JSON,
        "overhead": RESOURCES | JSON,
        "resources": st.fixed_dictionaries({}, optional={"requests": RESOURCES}) | JSON,
    }
    | {key: STRUCTURED.get(key, JSON) | JSON for line in KEYS for key in line.split()},
)
ATTEMPT = st.dictionaries(st.just(names.ANNOTATION_ATTEMPT) | st.text(), st.text(max_size=12), max_size=3)


@settings(deadline=None, max_examples=120)
@given(SPEC | JSON, JSON, ATTEMPT)
def test_no_pod_breaks_the_watcher(spec: Any, status: Any, annotations: dict[str, str]) -> None:
    seen = read({"metadata": {"name": "a", "annotations": annotations}, "spec": spec, "status": status})
    assert all(0 <= amount < 1 << 63 for amount in seen.template.requests.values())
    assert seen.attempt >= 0
    assert all(0 < port.port <= 65535 or seen.problems for port in seen.template.host_ports)
    value, _ = pack(seen)
    assert value is not None
    assert decode(value, state.Pod).name == "a"
