"""Laws of the store: versions only rise, the log replays to the state, pages are one moment."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.simcluster import Controllers, ControllerSettings, Kubelets, KubeletSettings, ListOptions, Path, Store
from berth.simcluster.store import JSON, MERGE, STRATEGIC
from berth.simcluster.store.objects import decode

PODS = Path("", "v1", "pods", "default")
NAMES = st.sampled_from(["a", "b", "c", "d"])

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.booleans()),
        st.tuples(st.just("bind"), NAMES, st.sampled_from(["n1", "n2"])),
        st.tuples(st.just("label"), NAMES, st.integers(0, 2)),
        st.tuples(st.just("status"), NAMES, st.sampled_from(["Running", "Succeeded"])),
        st.tuples(st.just("delete"), NAMES, st.sampled_from([0, 5])),
        st.tuples(st.just("finalize"), NAMES, st.none()),
        st.tuples(st.just("evict"), NAMES, st.none()),
    ),
    max_size=40,
)


def do(store, step):
    kind, name, value = step
    path = PODS._replace(name=name)
    match kind:
        case "create":
            meta = {"name": name, **({"finalizers": ["a.b/c"]} if value else {})}
            return store.create(PODS, {"metadata": meta, "spec": {"containers": [{"name": "m", "image": "i"}]}})
        case "bind":
            return store.bind("default", name, {"target": {"name": value}})
        case "label":
            return store.patch(path, {"metadata": {"labels": {"x": str(value)}}})
        case "status":
            return store.patch(path._replace(subresource="status"), {"status": {"phase": value}}, STRATEGIC)
        case "delete":
            return store.delete(path, {"gracePeriodSeconds": value})
        case "finalize":
            return store.patch(path, [{"op": "remove", "path": "/metadata/finalizers"}], JSON)
        case _:
            return store.evict("default", name, {"metadata": {"name": name}})


def new_store(**settings_):
    now = [1_000_000.0]

    def clock():
        now[0] += 0.4
        return now[0]

    return Store(clock=clock, **settings_)


def listing(store, path=PODS, **options):
    body = decode(store.list(path, ListOptions(**options)).body)
    return body["items"], body["metadata"]


def replay(objects, lines, prefix=""):
    for line in lines:
        event = decode(line)
        obj = event["object"]
        key = obj["metadata"]["name"]
        if event["type"] == "ADDED":
            assert key not in objects
        else:
            assert key in objects
        if event["type"] == "DELETED":
            del objects[key]
        else:
            objects[key] = obj
    return objects


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_versions_rise_and_the_log_replays_to_the_state(steps):
    store = new_store()
    start = store.version
    for step in steps:
        before = store.version
        do(store, step)
        assert store.version >= before
    lines = store.changes(PODS, start)
    versions = [int(decode(line)["object"]["metadata"]["resourceVersion"]) for line in lines]
    assert versions == sorted(set(versions))
    assert all(version > start for version in versions)
    items, _ = listing(store)
    assert replay({}, lines) == {item["metadata"]["name"]: item for item in items}


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from(["spec.nodeName=", "spec.nodeName=n1", "status.phase=Running", "metadata.name=a"]))
def test_a_filtered_log_replays_to_the_filtered_state(steps, fields):
    store = new_store()
    start = store.version
    for step in steps:
        do(store, step)
    items, _ = listing(store, fields=fields)
    seen = replay({}, store.changes(PODS, start, fields=fields))
    assert seen == {item["metadata"]["name"]: item for item in items}


@settings(max_examples=100, deadline=None)
@given(STEPS, STEPS, st.integers(1, 3))
def test_pages_are_the_moment_of_the_first(before, after, limit):
    store = new_store()
    for step in before:
        do(store, step)
    whole, _ = listing(store)
    items, meta = listing(store, limit=str(limit))
    steps = iter(after)
    while "continue" in meta:
        for step in (next(steps, None), next(steps, None)):
            if step is not None:
                do(store, step)
        page, meta = listing(store, limit=str(limit), token=meta["continue"])
        items += page
    assert items == whole


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_refusals_change_nothing_and_success_is_what_is_stored(steps):
    store = new_store()
    for step in steps:
        before, version = listing(store)[0], store.version
        reply = do(store, step)
        body = decode(reply.body)
        if reply.status >= 400:
            assert body["kind"] == "Status"
            assert body["code"] == reply.status
            assert listing(store)[0] == before
            assert store.version == version
        elif body["kind"] == "Pod" and store.get(PODS._replace(name=step[1])).status == 200:
            assert decode(store.get(PODS._replace(name=step[1])).body) == body


@settings(max_examples=100, deadline=None)
@given(STEPS, st.integers(1, 5))
def test_history_is_bounded_and_what_is_kept_is_right(steps, history):
    store = new_store(history=history)
    states = {store.version: listing(store)[0]}
    for step in steps:
        do(store, step)
        states[store.version] = listing(store)[0]
    assert len(store.state.find("", "v1", "pods").log) <= history + history // 4 + 1
    for version, items in states.items():
        lines = store.changes(PODS, version)
        reply = store.list(PODS, ListOptions(version=str(version), match="Exact"))
        if isinstance(lines, tuple):
            assert lines.status == reply.status == 410
            continue
        assert decode(reply.body)["items"] == items
        seen = replay({item["metadata"]["name"]: item for item in items}, lines)
        assert list(dict(sorted(seen.items())).values()) == listing(store)[0]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
WORDS = """
metadata spec status name labels annotations finalizers containers conditions type resources requests limits cpu uid
resourceVersion nodeName schedulingGates tolerations priorityClassName $patch $retainKeys target preconditions
"""
FIELDS = st.sampled_from(WORDS.split())
MANIFESTS = st.recursive(
    JSON_VALUES,
    lambda inner: st.dictionaries(FIELDS, inner, max_size=5) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(MANIFESTS, st.sampled_from([MERGE, STRATEGIC, JSON, "application/apply-patch+yaml", "x"]))
def test_no_body_breaks_the_store(body, kind):
    store = new_store()
    do(store, ("create", "a", False))
    text = json.dumps(body).encode()
    path = PODS._replace(name="a")
    calls = [
        lambda: store.create(PODS, text),
        lambda: store.create(Path("", "v1", "nodes"), text),
        lambda: store.create(Path("policy", "v1", "poddisruptionbudgets", "default"), text),
        lambda: store.create(Path("scheduling.k8s.io", "v1", "priorityclasses"), text),
        lambda: store.create(Path("apiextensions.k8s.io", "v1", "customresourcedefinitions"), text),
        lambda: store.patch(path, text, kind, manager="me"),
        lambda: store.patch(path._replace(subresource="status"), text, kind, manager="me"),
        lambda: store.update(path, text),
        lambda: store.evict("default", "a", text),
        lambda: store.evict("default", "a", text),
        lambda: store.delete(path, text),
        lambda: store.list(PODS),
    ]
    for call in calls:
        reply = call()
        assert 200 <= reply.status < 500
        decode(reply.body)
    assert 200 <= store.bind("default", "a", text).status <= 500  # a malformed target is a plain error


SELECTED = "volume.kubernetes.io/selected-node"
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "selector": {"matchLabels": {"a": "b"}},
    "storageClassName": "b",
}
REPLICAS = {
    "replicas": 1,
    "selector": {"matchLabels": {"a": "b"}},
    "template": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "m", "image": "i"}]},
    },
}
VALID = {
    "pods": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "b", "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a.b/c"]},
        "spec": {
            "containers": [
                {"name": "m", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
            ],
            "initContainers": [{"name": "i"}],
            "tolerations": [{"key": "a"}],
            "schedulingGates": [{"name": "g"}],
            "priorityClassName": "system-node-critical",
            "overhead": {"cpu": "1"},
            "affinity": {},
            "nodeSelector": {},
            "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": CLAIM}}}],
        },
    },
    "nodes": {
        "metadata": {"name": "b"},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}], "addresses": []},
    },
    "poddisruptionbudgets": {
        "metadata": {"name": "b"},
        "spec": {
            "maxUnavailable": "50%",
            "selector": {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
            },
        },
    },
    "replicasets": {"metadata": {"name": "b"}, "spec": REPLICAS},
    "deployments": {"metadata": {"name": "b"}, "spec": REPLICAS},
    "persistentvolumeclaims": {"metadata": {"name": "b", "annotations": {SELECTED: "n1"}}, "spec": CLAIM},
    "persistentvolumes": {
        "metadata": {"name": "b", "labels": {"a": "b"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "b",
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": "default", "name": "b", "uid": "u"},
            "csi": {"driver": "d", "volumeHandle": "h"},
        },
    },
    "storageclasses": {
        "metadata": {"name": "b", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "d",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}],
    },
    "csinodes": {
        "metadata": {"name": "n1"},
        "spec": {"drivers": [{"name": "d", "nodeID": "i", "topologyKeys": ["a"], "allocatable": {"count": 3}}]},
    },
    "customresourcedefinitions": {
        "metadata": {"name": "ws.x.y"},
        "spec": {
            "group": "x.y",
            "scope": "Namespaced",
            "names": {"kind": "W", "plural": "ws", "shortNames": ["w"]},
            "versions": [
                {
                    "name": "v1",
                    "storage": True,
                    "served": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "integer", "minimum": 1, "enum": [1], "default": 1}},
                            "required": ["spec"],
                            "anyOf": [{}],
                            "items": {},
                        }
                    },
                }
            ],
        },
    },
}
WHERE = {
    "pods": PODS,
    "nodes": Path("", "v1", "nodes"),
    "poddisruptionbudgets": Path("policy", "v1", "poddisruptionbudgets", "default"),
    "replicasets": Path("apps", "v1", "replicasets", "default"),
    "deployments": Path("apps", "v1", "deployments", "default"),
    "persistentvolumeclaims": Path("", "v1", "persistentvolumeclaims", "default"),
    "persistentvolumes": Path("", "v1", "persistentvolumes"),
    "storageclasses": Path("storage.k8s.io", "v1", "storageclasses"),
    "csinodes": Path("storage.k8s.io", "v1", "csinodes"),
    "customresourcedefinitions": Path("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
}

STORAGE = ("persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes")


def holes(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from holes(child, (*path, key))


def with_hole(value, path, filler):
    if not path:
        return filler
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = with_hole(value[key], rest, filler)
    return copy


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_wrong_value_in_a_manifest_breaks_the_store_its_kubelets_or_its_controllers(data):
    plural = data.draw(st.sampled_from(sorted(VALID)))
    path = data.draw(st.sampled_from(list(holes(VALID[plural]))))
    body = with_hole(VALID[plural], path, data.draw(JSON_VALUES))
    store = new_store()
    kubelets = Kubelets(store, KubeletSettings(start_delay_s=0, stop_delay_s=0))
    controllers = Controllers(store, ControllerSettings(react_s=(0, 0), provision_s=(0, 0)))
    store.create(WHERE["nodes"], {"metadata": {"name": "n1"}})
    for other in STORAGE if plural in STORAGE else ():
        if other != plural:
            assert store.create(WHERE[other], VALID[other]).status == 201
    do(store, ("create", "a", False))
    do(store, ("bind", "a", "n1"))
    kubelets.run(store.state.clock() + 1)
    calls = [lambda: store.create(WHERE[plural], body)]
    for name in ("a", "b", "n1", "ws.x.y"):
        target = WHERE[plural]._replace(name=name)
        for each in (target, target._replace(subresource="status")):
            calls += [
                lambda each=each: store.patch(each, body, MERGE),
                lambda each=each: store.patch(each, body, STRATEGIC),
                lambda each=each: store.update(each, body),
            ]
    calls += [
        lambda: store.bind("default", "b", {"target": {"name": "n1"}}),
        lambda: store.create(Path("x.y", "v1", "ws", "default"), {"metadata": {"name": "w"}, "spec": 3}),
        lambda: store.list(PODS, ListOptions(labels="a=b", fields="status.phase=Running")),
        lambda: store.list(WHERE["nodes"], ListOptions(labels="a=b", fields="spec.unschedulable=false")),
        lambda: store.evict("default", "a", {}),
        lambda: store.delete(PODS._replace(name="b"), {"gracePeriodSeconds": 1}),
    ]
    for call in calls:
        reply = call()
        assert 200 <= reply.status < 500
        decode(reply.body)
        kubelets.run(store.state.clock() + 10)
        controllers.run(store.state.clock() + 10, 50)
