"""Controllers on virtual time: ReplicaSets, budgets, claims and volumes; and once over HTTP on the real clock."""

import random

import pytest

from berth.simcluster import Controllers, ControllerSettings, Kubelets, KubeletSettings, Path, Store
from berth.simcluster.store.objects import decode

PODS = Path("", "v1", "pods", "default")
NODES = Path("", "v1", "nodes")
SETS = Path("apps", "v1", "replicasets", "default")
DEPLOYMENTS = Path("apps", "v1", "deployments", "default")
BUDGETS = Path("policy", "v1", "poddisruptionbudgets", "default")
CLAIMS = Path("", "v1", "persistentvolumeclaims", "default")
VOLUMES = Path("", "v1", "persistentvolumes")
CLASSES = Path("storage.k8s.io", "v1", "storageclasses")
CSI_NODES = Path("storage.k8s.io", "v1", "csinodes")
WEB = {"app": "web"}
TEMPLATE = {"metadata": {"labels": WEB}, "spec": {"containers": [{"name": "m", "image": "i"}]}}
SELECTED = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"


class World:
    """A store with kubelets and controllers, and a clock that jumps to the next thing due."""

    def __init__(self, **settings):
        self.now = 1_000_000.0
        self.store = Store(clock=lambda: self.now, random=random.Random(1))
        kubelet = KubeletSettings(heartbeat_s=0, start_delay_s=0.5, stop_delay_s=5)
        self.kubelets = Kubelets(self.store, kubelet)
        self.controllers = Controllers(self.store, ControllerSettings(**settings))
        for name, zone in (("n1", "a"), ("n2", "b")):
            self.make(NODES, name, {"status": {"allocatable": {"cpu": "4"}}}, labels={"zone": zone})
        self.run(0)

    def run(self, seconds):
        end = self.now + seconds
        while True:
            dues = [each.next_due() for each in (self.kubelets, self.controllers)]
            due = min((each for each in dues if each is not None), default=end + 1)
            if due > end:
                break
            self.now = max(self.now, due)
            self.kubelets.run(self.now)
            self.controllers.run(self.now)
        self.now = end

    def make(self, path, name, body=None, **meta):
        reply = self.store.create(path, {"metadata": {"name": name, **meta}, **(body or {})})
        assert reply.status == 201, reply.body
        return decode(reply.body)

    def get(self, path, name):
        reply = self.store.get(path._replace(name=name))
        return decode(reply.body) if reply.status == 200 else None

    def all(self, path):
        return decode(self.store.list(path).body)["items"]

    def patch(self, path, name, body, subresource=""):
        reply = self.store.patch(path._replace(name=name, subresource=subresource), body)
        assert reply.status == 200, reply.body

    def delete(self, path, name, **body):
        assert self.store.delete(path._replace(name=name), body).status == 200

    def pods(self, *, deleting=False):
        return [pod for pod in self.all(PODS) if ("deletionTimestamp" in pod["metadata"]) == deleting]

    def bind_all(self, node="n1"):
        for pod in self.pods():
            if "nodeName" not in pod["spec"]:
                assert self.store.bind("default", pod["metadata"]["name"], {"target": {"name": node}}).status == 201
        self.run(2)

    def evict(self, name):
        return self.store.evict("default", name, {"metadata": {"name": name}}).status

    def replicas(self, count=3):
        spec = {"replicas": count, "selector": {"matchLabels": WEB}, "template": TEMPLATE}
        self.make(SETS, "web", {"spec": spec})
        self.run(1)

    def budget(self, **spec):
        self.make(BUDGETS, "web", {"spec": {"selector": {"matchLabels": WEB}, **spec}})
        self.run(1)


class TestReplicaSets:
    def test_as_many_pods_as_wanted(self):
        world = World()
        world.replicas(3)
        pods = world.pods()
        owners = {pod["metadata"]["ownerReferences"][0]["name"] for pod in pods}
        assert (len(pods), owners, pods[0]["metadata"]["labels"]) == (3, {"web"}, WEB)
        assert world.get(SETS, "web")["status"]["replicas"] == 3
        world.bind_all()
        assert world.get(SETS, "web")["status"]["readyReplicas"] == 3
        world.patch(SETS, "web", {"spec": {"replicas": 1}})
        world.run(10)
        assert len(world.all(PODS)) == 1

    def test_an_evicted_pod_is_replaced_while_it_ends(self):
        world = World()
        world.replicas(2)
        world.bind_all()
        assert world.evict(world.pods()[0]["metadata"]["name"]) == 201
        world.run(1)
        (ending,) = world.pods(deleting=True)
        conditions = {each["type"]: each for each in ending["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"
        assert len(world.pods()) == 2
        world.run(10)
        assert len(world.all(PODS)) == 2

    def test_an_ended_pod_is_replaced(self):
        world = World()
        world.replicas(1)
        world.patch(PODS, world.pods()[0]["metadata"]["name"], {"status": {"phase": "Failed"}}, "status")
        world.run(1)
        assert [pod["status"]["phase"] for pod in world.pods()].count("Pending") == 1

    def test_its_pods_go_with_it(self):
        world = World()
        world.replicas(2)
        world.make(PODS, "stranger", {"spec": TEMPLATE["spec"]}, labels=WEB)
        world.delete(SETS, "web")
        world.run(1)
        assert [pod["metadata"]["name"] for pod in world.all(PODS)] == ["stranger"]

    def test_a_pod_that_is_refused_is_tried_again(self):
        world = World()
        spec = {**TEMPLATE["spec"], "priorityClassName": "later"}
        template = {**TEMPLATE, "spec": spec}
        world.make(SETS, "web", {"spec": {"replicas": 1, "template": template}})
        world.run(5)
        assert world.pods() == []
        world.make(Path("scheduling.k8s.io", "v1", "priorityclasses"), "later", {"value": 7})
        world.run(2)
        assert [pod["spec"]["priority"] for pod in world.pods()] == [7]


class TestDeployments:
    def test_one_set_for_the_template(self):
        world = World()
        spec = {"replicas": 2, "selector": {"matchLabels": WEB}, "template": TEMPLATE}
        world.make(DEPLOYMENTS, "web", {"spec": spec})
        world.run(1)
        (owned,) = world.all(SETS)
        assert owned["metadata"]["name"].startswith("web-")
        assert len(world.pods()) == 2
        world.bind_all()
        assert world.get(DEPLOYMENTS, "web")["status"]["readyReplicas"] == 2
        world.patch(DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        world.run(10)
        assert sorted(each["spec"]["replicas"] for each in world.all(SETS)) == [0, 2]
        assert {pod["metadata"]["labels"].get("v") for pod in world.all(PODS)} == {"2"}
        world.delete(DEPLOYMENTS, "web")
        world.run(10)
        assert (world.all(SETS), world.all(PODS)) == ([], [])


class TestBudgets:
    def test_its_status_follows_the_pods(self):
        world = World()
        world.replicas(3)
        world.budget(minAvailable=2)
        status = world.get(BUDGETS, "web")["status"]
        assert (status["currentHealthy"], status["expectedPods"], status["disruptionsAllowed"]) == (0, 3, 0)
        world.bind_all()
        assert world.get(BUDGETS, "web")["status"]["disruptionsAllowed"] == 1

    def test_the_second_eviction_waits_for_the_replacement(self):
        world = World()
        world.replicas(3)
        world.budget(minAvailable=2)
        world.bind_all()
        first, second, _ = (pod["metadata"]["name"] for pod in world.pods())
        assert world.evict(first) == 201
        assert list(world.get(BUDGETS, "web")["status"]["disruptedPods"]) == [first]
        assert world.evict(second) == 429
        world.run(1)
        status = world.get(BUDGETS, "web")["status"]
        assert (status["disruptionsAllowed"], "disruptedPods" in status) == (0, False)
        world.bind_all()
        assert world.get(BUDGETS, "web")["status"]["disruptionsAllowed"] == 1
        assert world.evict(second) == 201

    def test_an_eviction_that_fails_is_counted_for_two_minutes(self):
        world = World()
        world.replicas(2)
        world.budget(minAvailable=1)
        world.bind_all()
        name = world.pods()[0]["metadata"]["name"]
        body = {"metadata": {"name": name}, "deleteOptions": {"preconditions": {"uid": "another"}}}
        assert world.store.evict("default", name, body).status == 409
        assert world.evict(name) == 429
        world.run(100)
        assert world.get(BUDGETS, "web")["status"]["disruptionsAllowed"] == 0
        world.run(30)
        status = world.get(BUDGETS, "web")["status"]
        assert (status["disruptionsAllowed"], "disruptedPods" in status) == (1, False)
        assert world.evict(name) == 201

    def test_pods_of_a_set_count_with_the_replicas_it_wants(self):
        """Else a set that is short of pods could lose more of them."""
        world = World()
        world.replicas(4)
        world.budget(maxUnavailable="50%")
        for pod in world.pods()[:2]:
            world.store.bind("default", pod["metadata"]["name"], {"target": {"name": "n1"}})
        world.run(2)
        status = world.get(BUDGETS, "web")["status"]
        assert (status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]) == (4, 2, 0)

    def test_it_is_quiet_when_nothing_changes(self):
        world = World()
        world.replicas(3)
        world.budget(minAvailable=1)
        world.bind_all()
        version = world.store.version
        world.run(1000)
        assert (world.store.version, world.controllers.waiting()) == (version, 0)


def claim(world, name="c", *, size="1Gi", storage_class="", **more):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    spec |= {"storageClassName": storage_class} | more.pop("spec", {})
    return world.make(CLAIMS, name, {"spec": spec}, **more)


def volume(world, name, *, size="1Gi", storage_class="", labels=None, **spec):
    whole = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}
    body = {"spec": {**whole, "hostPath": {"path": "/x"}, **spec}}
    return world.make(VOLUMES, name, body, labels=labels or {})


def storage_class(world, mode, provisioner="d", **more):
    return world.make(CLASSES, "fast", {"provisioner": provisioner, "volumeBindingMode": mode, **more})


def bound_to(world, name="c"):
    found = world.get(CLAIMS, name)
    if found["status"]["phase"] != "Bound":
        assert "volumeName" not in found["spec"]
        return None
    held = world.get(VOLUMES, found["spec"]["volumeName"])
    assert COMPLETED in found["metadata"]["annotations"]
    assert held["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
    assert held["status"]["phase"] == "Bound"
    return found["spec"]["volumeName"]


class TestClaims:
    def test_the_smallest_volume_that_suits(self):
        world = World()
        volume(world, "small", size="500Mi")
        volume(world, "large", size="9Gi")
        volume(world, "right", size="2Gi")
        volume(world, "other-class", size="1Gi", storage_class="x")
        volume(world, "read-only", size="1Gi", accessModes=["ReadOnlyMany"])
        volume(world, "block", size="1Gi", volumeMode="Block")
        world.run(1)
        assert {each["status"]["phase"] for each in world.all(VOLUMES)} == {"Available"}
        claim(world)
        world.run(1)
        assert bound_to(world) == "right"
        assert world.get(CLAIMS, "c")["status"]["capacity"] == {"storage": "2Gi"}
        claim(world, "d")
        world.run(1)
        assert bound_to(world, "d") == "large"
        claim(world, "e")
        world.run(1)
        assert bound_to(world, "e") is None
        volume(world, "late")
        world.run(1)
        assert bound_to(world, "e") == "late"

    def test_a_selector_narrows_it(self):
        world = World()
        volume(world, "plain")
        volume(world, "ssd", size="5Gi", labels={"tier": "ssd"})
        claim(world, spec={"selector": {"matchLabels": {"tier": "ssd"}}})
        world.run(1)
        assert bound_to(world) == "ssd"

    def test_what_a_scheduler_kept_is_bound_though_the_class_waits(self):
        world = World()
        storage_class(world, "WaitForFirstConsumer", "kubernetes.io/no-provisioner")
        volume(world, "v", storage_class="fast")
        uid = claim(world, storage_class="fast")["metadata"]["uid"]
        world.run(10)
        assert bound_to(world) is None
        ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": uid}
        world.patch(VOLUMES, "v", {"spec": {"claimRef": ref}})
        world.run(1)
        assert bound_to(world) == "v"

    def test_a_volume_kept_for_an_earlier_claim_of_the_name_is_not_taken(self):
        world = World()
        volume(world, "v", claimRef={"namespace": "default", "name": "c", "uid": "earlier"})
        claim(world)
        world.run(1)
        assert bound_to(world) is None
        assert world.get(VOLUMES, "v")["status"]["phase"] == "Released"

    def test_a_claim_whose_volume_is_gone_is_lost(self):
        world = World()
        volume(world, "v")
        claim(world)
        world.run(1)
        world.delete(VOLUMES, "v")
        world.run(1)
        assert world.get(CLAIMS, "c")["status"]["phase"] == "Lost"

    @pytest.mark.parametrize(("policy", "left"), [("Retain", ["Released"]), ("Delete", [])])
    def test_a_volume_whose_claim_is_gone(self, policy, left):
        world = World()
        volume(world, "v", persistentVolumeReclaimPolicy=policy)
        claim(world)
        world.run(1)
        world.delete(CLAIMS, "c")
        world.run(1)
        assert [each["status"]["phase"] for each in world.all(VOLUMES)] == left


class TestProvisioning:
    def test_at_once(self):
        world = World(provision_s=(1, 2))
        storage_class(world, "Immediate")
        claim(world, storage_class="fast", size="3Gi")
        world.run(0.9)
        assert bound_to(world) is None
        world.run(3)
        made = world.get(VOLUMES, bound_to(world))["spec"]
        assert (made["capacity"], made["csi"]["driver"], made["persistentVolumeReclaimPolicy"]) == (
            {"storage": "3Gi"},
            "d",
            "Delete",
        )
        world.delete(CLAIMS, "c")
        world.run(5)
        assert world.all(VOLUMES) == []

    def test_for_the_node_that_was_selected(self):
        world = World()
        storage_class(world, "WaitForFirstConsumer")
        drivers = [{"name": "d", "nodeID": "n2", "topologyKeys": ["zone"]}]
        world.make(CSI_NODES, "n2", {"spec": {"drivers": drivers}})
        claim(world, storage_class="fast")
        world.run(100)
        assert world.all(VOLUMES) == []
        world.patch(CLAIMS, "c", {"metadata": {"annotations": {SELECTED: "n2"}}})
        world.run(10)
        terms = world.get(VOLUMES, bound_to(world))["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms == [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]

    def test_a_failure_takes_the_selection_back(self):
        world = World(provision_failures=1.0)
        storage_class(world, "WaitForFirstConsumer")
        claim(world, storage_class="fast", annotations={SELECTED: "n1"})
        world.run(10)
        assert SELECTED not in world.get(CLAIMS, "c")["metadata"]["annotations"]
        assert (world.all(VOLUMES), world.controllers.waiting()) == ([], 0)

    def test_a_node_that_the_class_does_not_allow(self):
        world = World()
        zone = {"key": "zone", "values": ["b"]}
        storage_class(world, "WaitForFirstConsumer", allowedTopologies=[{"matchLabelExpressions": [zone]}])
        claim(world, storage_class="fast", annotations={SELECTED: "n1"})
        claim(world, "d", storage_class="fast", annotations={SELECTED: "n2"})
        world.run(10)
        assert (bound_to(world), bound_to(world, "d") is not None) == (None, True)
        assert SELECTED not in world.get(CLAIMS, "c")["metadata"]["annotations"]

    def test_failures_are_repeated_where_no_node_was_selected(self):
        world = World(provision_failures=0.5, seed=3)
        storage_class(world, "Immediate")
        for index in range(20):
            claim(world, f"c{index}", storage_class="fast")
        world.run(4)
        done = sum(bound_to(world, f"c{index}") is not None for index in range(20))
        assert 0 < done < 20
        world.run(200)
        assert all(bound_to(world, f"c{index}") for index in range(20))

    def test_the_same_seed_gives_the_same_world(self):
        def story(seed):
            world = World(provision_failures=0.3, seed=seed)
            storage_class(world, "Immediate")
            for index in range(5):
                claim(world, f"c{index}", storage_class="fast")
            world.run(20)
            return [each["metadata"] for each in (*world.all(VOLUMES), *world.all(CLAIMS))]

        assert story(1) == story(1)
        assert story(1) != story(2)


def test_a_claim_for_an_ephemeral_volume():
    world = World()
    storage_class(world, "Immediate")
    template = {
        "metadata": {"labels": {"l": "1"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
        },
    }
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    uid = world.make(PODS, "a", {"spec": {**TEMPLATE["spec"], "volumes": volumes}})["metadata"]["uid"]
    world.run(10)
    made = world.get(CLAIMS, "a-scratch")
    assert made["metadata"]["ownerReferences"][0]["uid"] == uid
    assert (made["metadata"]["labels"], bound_to(world, "a-scratch") is not None) == ({"l": "1"}, True)
    world.delete(PODS, "a")
    world.run(10)
    assert (world.all(CLAIMS), world.all(VOLUMES)) == ([], [])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"react_s": (2, 1)}, "react_s"),
        ({"provision_s": (-1, 1)}, "provision_s"),
        ({"provision_failures": 1.5}, "provision_failures"),
        ({"speed": 0}, "speed"),
    ],
)
def test_unusable_settings_are_named(settings, problem):
    assert ControllerSettings().problem() == ""
    assert ControllerSettings(**settings).problem().startswith(problem)


async def test_over_http_on_the_real_clock(start, eventually):
    client = await start(controllers=ControllerSettings(react_s=(0, 0.01)))
    spec = {"replicas": 2, "selector": {"matchLabels": WEB}, "template": TEMPLATE}
    await client.ok("POST", "/apis/apps/v1/namespaces/default/replicasets", {"metadata": {"name": "w"}, "spec": spec})
    await eventually(lambda: len(client.sim.store.state.collections["", "pods"].items) == 2)
