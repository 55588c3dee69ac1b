"""Kubelets on virtual time, and once on the real clock."""

import pytest

from berth.simcluster import Kubelets, KubeletSettings, Path, Store
from berth.simcluster.duration import parse_duration_s
from berth.simcluster.store.objects import decode

PODS = Path("", "v1", "pods", "default")
NODES = Path("", "v1", "nodes")


class World:
    """A store, its kubelets, and a clock that jumps to the next thing due."""

    def __init__(self, **settings):
        self.now = 1_000_000.0
        self.store = Store(clock=lambda: self.now)
        self.kubelets = Kubelets(self.store, KubeletSettings(**{"heartbeat_s": 0, **settings}))
        self.store.create(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}})
        self.run(0)

    def run(self, seconds):
        end = self.now + seconds
        while (due := self.kubelets.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.kubelets.run(self.now)
        self.now = end

    def pod(self, name="a", node="n1", **annotations):
        meta = {"name": name, "annotations": annotations}
        body = {"metadata": meta, "spec": {"containers": [{"name": "m", "image": "i"}]}}
        assert self.store.create(PODS, body).status == 201
        assert self.store.bind("default", name, {"target": {"name": node}}).status == 201

    def get(self, name="a"):
        return decode(self.store.get(PODS._replace(name=name)).body)

    def phase(self, name="a"):
        return self.get(name)["status"]["phase"]


def test_a_bound_pod_runs_after_the_delay_with_one_update():
    world = World(start_delay_s=2)
    world.pod()
    world.run(1.9)
    assert world.phase() == "Pending"
    version = world.store.version
    world.run(0.2)
    pod = world.get()
    assert world.store.version == version + 1
    assert pod["status"]["phase"] == "Running"
    ready = {c["type"]: c["status"] for c in pod["status"]["conditions"]}
    assert ready == {"PodScheduled": "True", "Initialized": "True", "ContainersReady": "True", "Ready": "True"}
    assert pod["status"]["containerStatuses"][0]["ready"] is True
    assert pod["status"]["podIP"].startswith("10.")


def test_duration_and_failure():
    world = World(start_delay_s=1)
    world.pod("a", **{"sim.berth.sh/duration": "1m"})
    world.pod("b", **{"sim.berth.sh/duration": "1m", "sim.berth.sh/fail-after": "30s"})
    world.pod("c", **{"sim.berth.sh/duration": "soon"})
    world.run(40)
    assert [world.phase(name) for name in "abc"] == ["Running", "Failed", "Running"]
    world.run(40)
    assert [world.phase(name) for name in "abc"] == ["Succeeded", "Failed", "Running"]
    ended = world.get("b")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 1
    assert {c["type"]: c["status"] for c in world.get("a")["status"]["conditions"]}["Ready"] == "False"


def test_speed_divides_times():
    world = World(start_delay_s=60, speed=60)
    world.pod(**{"sim.berth.sh/duration": "1h"})
    world.run(1.1)
    assert world.phase() == "Running"
    world.run(60)
    assert world.phase() == "Succeeded"


@pytest.mark.parametrize(("stop_s", "grace_s", "gone_after_s"), [(5, 30, 5), (60, 30, 30), (60, 0, 0)])
def test_deletion_takes_the_stop_delay_but_no_longer_than_the_grace(stop_s, grace_s, gone_after_s):
    world = World(stop_delay_s=stop_s)
    world.pod()
    world.run(5)
    world.store.delete(PODS._replace(name="a"), {"gracePeriodSeconds": grace_s})
    if gone_after_s:
        world.run(gone_after_s - 0.1)
        assert world.get()["metadata"]["deletionGracePeriodSeconds"] == grace_s
        world.run(0.2)
    assert world.store.get(PODS._replace(name="a")).status == 404


def test_a_shorter_grace_counts():
    world = World(stop_delay_s=100)
    world.pod()
    world.run(5)
    world.store.delete(PODS._replace(name="a"), {"gracePeriodSeconds": 90})
    world.store.delete(PODS._replace(name="a"), {"gracePeriodSeconds": 10})
    world.run(11)
    assert world.store.get(PODS._replace(name="a")).status == 404


def test_a_successor_of_the_same_name_is_another_pod():
    world = World(start_delay_s=10)
    world.pod()
    world.run(5)
    world.store.delete(PODS._replace(name="a"), {"gracePeriodSeconds": 0})
    world.pod()
    world.run(6)
    assert world.phase() == "Pending"
    world.run(5)
    assert world.phase() == "Running"


def test_running_can_be_off_and_deletion_still_works():
    world = World(running=False)
    world.pod()
    version = world.store.version
    world.run(100)
    assert world.store.version == version
    world.store.delete(PODS._replace(name="a"))
    world.run(1)
    assert world.store.get(PODS._replace(name="a")).status == 404


def test_nothing_happens_on_missing_and_silent_nodes():
    world = World(start_delay_s=1)
    world.pod("a", node="nowhere")
    world.run(10)
    assert world.phase() == "Pending"
    silent = {"metadata": {"annotations": {"sim.berth.sh/silent": "true"}}}
    world.pod("b")
    world.run(2)
    world.store.patch(NODES._replace(name="n1"), silent)
    world.store.delete(PODS._replace(name="b"))
    world.pod("c")
    world.run(60)
    assert "deletionTimestamp" in world.get("b")["metadata"]
    assert world.phase("c") == "Pending"
    world.store.patch(NODES._replace(name="n1"), {"metadata": {"annotations": None}})
    world.store.create(NODES, {"metadata": {"name": "nowhere"}})
    world.run(3)
    assert world.store.get(PODS._replace(name="b")).status == 404
    assert world.phase("a") == world.phase("c") == "Running"


def test_nodes_become_ready_and_report_at_intervals():
    world = World(heartbeat_s=10)
    node = decode(world.store.get(NODES._replace(name="n1")).body)
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
    assert node["status"]["capacity"] == {"cpu": "4"}
    version = world.store.version
    world.run(100)
    assert 9 <= world.store.version - version <= 10


def test_ten_thousand_pods_need_one_heap_and_no_more_timers_than_pods():
    world = World(start_delay_s=1)
    for number in range(10_000):
        world.pod(f"p{number}")
    assert world.kubelets.waiting() == 10_000
    world.run(2)
    assert world.kubelets.waiting() == 0
    assert world.phase("p9999") == "Running"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1h30m", 5400), ("250ms", 0.25), ("1.5m", 90), ("12", 12), (" 3s ", 3), ("0", 0)],
)
def test_durations(text, seconds):
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "1", "-1s", "1d", "NaN", "1s2", "9" * 30 + "h", "1h" * 100, "inf"])
def test_what_is_no_duration(text):
    assert parse_duration_s(text) is None or text == "1"


def test_senseless_settings_name_the_field():
    assert "speed" in KubeletSettings(speed=0).problem()
    assert "start_delay_s" in KubeletSettings(start_delay_s=float("nan")).problem()


async def test_in_the_server(start, eventually):
    client = await start(kubelet=KubeletSettings(start_delay_s=0.01, stop_delay_s=0.01))
    await client.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    await client.pod("a")
    await client.bind("a")
    store = client.sim.store
    path = PODS._replace(name="a")
    await eventually(lambda: decode(store.get(path).body)["status"]["phase"] == "Running")
    await client.ok("DELETE", "/api/v1/namespaces/default/pods/a")
    await eventually(lambda: store.get(path).status == 404)


def test_a_device_plugin_takes_off_the_lock_that_names_its_pod():
    world = World(running=False)
    lock = {"cambricon.com/dsmlu.lock": "2026-01-01T00:00:00Z,default,a", "other": "x"}
    world.store.patch(NODES._replace(name="n1"), {"metadata": {"annotations": lock}})
    world.pod("b", **{"scheduling.koordinator.sh/bind-timestamp": "1"})
    world.pod("a")
    world.run(1)
    node = decode(world.store.get(NODES._replace(name="n1")).body)
    assert node["metadata"]["annotations"] == lock, "neither names its pod, or was bound for a plugin"
    world.store.delete(PODS._replace(name="a"), grace="0")
    world.pod("a", **{"scheduling.koordinator.sh/bind-timestamp": "1"})
    world.run(1)
    node = decode(world.store.get(NODES._replace(name="n1")).body)
    assert node["metadata"]["annotations"] == {"other": "x"}
