"""State shows what the cluster shows, and of two snapshots the difference is named: I8."""

from __future__ import annotations

from tests.libs.invariants.worlds import check_of, pod, reservation, user

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import DeviceGrant
from berth.invariants import World
from berth.invariants.facts import Facts
from berth.invariants.snapshots import differences, snapshot_of_facts
from berth.testing.builders import pod as state_pod


def in_state(name: str, node: str, minor: int | None = None) -> tuple[str, tuple[int, bytes]]:
    builder = (
        state_pod(name).on(node).set(uid=f"uid-{name}").requests(cpu=1000).annotation(names.ANNOTATION_QUOTA, "/q")
    )
    if minor is not None:
        builder = builder.share(50).on(node, [DeviceGrant(kind="gpu", minor=minor, amounts={names.GPU_CORE: 50})])
    return subjects.pod_key("default", name), (1, encode(builder.build(1)))


SHARE = {names.GPU_CORE: "50", names.GPU_MEMORY_RATIO: "50"}


def test_state_shows_what_the_cluster_shows() -> None:
    note = {names.ANNOTATION_DEVICE_ALLOCATED: '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}'}
    quotas = {names.ANNOTATION_QUOTA: "/q"}
    pods = [pod("a", "n1", {"cpu": "1"}, notes=quotas), pod("b", "n1", {"cpu": "1"} | SHARE, notes=quotas | note)]
    seen = dict([in_state("a", "n1"), in_state("b", "n1", 0)])
    assert check_of(pods=pods, believed=seen) == []
    assert check_of(pods=pods, believed=seen | dict([in_state("a", "n2")])) == ["I8"]
    assert check_of(pods=pods, believed=seen | dict([in_state("b", "n1", 1)])) == ["I8"]
    assert check_of(pods=pods, believed=dict([in_state("b", "n1", 0)])) == ["I8"]
    assert check_of(pods=pods, believed=seen | dict([in_state("gone", "n1")])) == ["I8"]
    assert check_of(pods=pods, believed={}, is_quiet=False) == []
    assert check_of(pods=[], believed={"pod.default.a": (1, b"{")}) == ["I0"]


def test_two_snapshots_differ_in_what_they_differ_in() -> None:
    world = World.of(pods=[user("a")], reservations=[reservation()])
    snapshot = snapshot_of_facts(Facts.of(world))
    assert differences(snapshot, snapshot) == []
    without = snapshot._replace(reservations={})
    (found,) = differences(snapshot, without)
    assert found.subject == "reservation uid-r1"
    assert "before ('r1', 'n1', ('uid-a',)), after nothing" in found.text
