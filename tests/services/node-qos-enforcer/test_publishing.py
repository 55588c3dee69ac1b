"""How the agent stands with the container runtime: published when it changes, and once a minute."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

from tests.services.node_qos_builders import pod

from berth.bus.port import BusPort, OwnedPort
from berth.contracts.base import Problem
from berth.contracts.codec import MESSAGE_BYTES_MAX, decode
from berth.contracts.metrics import RuntimePlugin
from berth.contracts.node_runtime import NodeRuntime
from berth.node_qos_enforcer.core.inside.findings import TOLD_MAX, Findings, Key
from berth.node_qos_enforcer.core.inside.seen import pod_seen
from berth.node_qos_enforcer.inside.known import Inside
from berth.node_qos_enforcer.inside.publishing import RuntimePublisher
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return 1_000.0 + self.at

    def monotonic(self) -> float:
        return self.at


class Bucket:
    """Keeps what is put."""

    def __init__(self) -> None:
        self.puts: list[NodeRuntime] = []

    def put(self, key: str, value: bytes, **more: Any) -> bool:
        assert key == "runtime.n"
        assert len(value) < MESSAGE_BYTES_MAX
        self.puts.append(decode(value, NodeRuntime))
        return True


def test_it_is_published_when_it_changes_and_once_a_minute(tmp_path: Path) -> None:
    known, clock, bucket = KnownNode("n"), Clock(), Bucket()
    settings = Settings(node_name="n", nri_socket="s")
    inside = Inside(settings, known)
    ctx = Context(
        service="t", settings=settings, bus=cast("BusPort", None), clock=cast("Any", clock), random=random.Random(1)
    )
    publisher = RuntimePublisher(ctx, known, inside)
    publisher._bucket = cast("OwnedPort", bucket)
    for at in range(62):
        clock.at = float(at)
        publisher.look()
    assert [each.at for each in bucket.puts] == [1_001.0, 1_061.0], "after a moment for the runtime to be there"
    known.plugin = lambda: RuntimePlugin(connected=True, isolation="HAMi-core")
    publisher.look()
    assert bucket.puts[-1].isolation == "HAMi-core"
    own = pod_seen(pod("own"))
    inside.board.begin(own)
    inside.findings.note(Key("devices", own.id, "main"), Problem(field=f"{own.key}.metadata.x", message="is none"))
    publisher.look()
    [finding] = bucket.puts[-1].findings
    assert (finding.kind, finding.container, finding.message) == ("devices", "main", "metadata.x: is none")
    assert len(bucket.puts) == 4
    publisher._again()
    assert bucket.puts[-1] == bucket.puts[-2]


def test_findings_of_pods_are_bounded() -> None:
    found, pods = Findings(), {}
    for number in range(TOLD_MAX + 50):
        seen = pod_seen(pod(f"p{number}"))
        pods[seen.id] = seen
        found.note(Key("cpus", seen.id), Problem(field=seen.key, message="m" * 9_999))
    told = found.of_pods(pods)
    assert len(told) == TOLD_MAX
    assert sum(len(each.message) for each in told) < MESSAGE_BYTES_MAX / 4
    assert found.of_pods({}) == []
