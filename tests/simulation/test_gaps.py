"""Nobody waits without a reason: on virtual time, where work takes none, a pod takes as long as it is made to wait."""

from __future__ import annotations

import random
import statistics

import msgspec
import pytest
from tests.simulation import workload
from tests.simulation.harness import build
from tests.simulation.unmetered import unmetered

from berth.simcluster.store import Event, Path

PODS = Path("", "v1", "pods", workload.NAMESPACE)
CONTAINER = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}}}
COUNT = 12


@pytest.mark.parametrize(
    ("every_s", "median_s", "most_s"),
    [
        pytest.param(0.25, 0.020, 0.035, id="one by itself"),
        pytest.param(0.01, 0.025, 0.045, id="a hundred a second"),
    ],
)
def test_a_pod_waits_for_messages_and_nothing_else(every_s: float, median_s: float, most_s: float) -> None:
    """A message takes up to 1 ms, a request of the API up to 5 ms each way; of those a pod needs its own two."""
    harness = build(7, workload.cluster(random.Random(7), workload.Size()), {}, log_level="error")
    world = harness.world
    created: dict[str, float] = {}
    bound: dict[str, float] = {}

    def seen(event: Event) -> None:
        pod = event.obj.data
        if event.resource.plural == "pods" and pod["spec"].get("nodeName"):
            bound.setdefault(pod["metadata"]["name"], world.now)

    harness.kube.store.listen(seen)
    with harness.journal, unmetered():
        world.run(6.0)
        for number in range(COUNT):
            name = f"lone-{number}"
            pod = {"metadata": {"name": name}, "spec": {"schedulerName": "berth-scheduler", "containers": [CONTAINER]}}
            created[name] = world.now
            assert harness.kube.perform("create", PODS, msgspec.json.encode(pod)).status == 201
            world.run(world.now + every_s)
        world.run(world.now + 1.0)
    harness.world.close()
    took_s = [bound[name] - at for name, at in created.items()]
    assert statistics.median(took_s) <= median_s
    assert max(took_s) <= most_s
