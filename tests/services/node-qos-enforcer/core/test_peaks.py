"""Peaks over days: who is known for long enough, what a new pod inherits, what a checkpoint brings back."""

import pytest

from berth.contracts.metrics import Usage
from berth.node_qos_enforcer.core.peaks.checkpoint import UnusableError, read, written
from berth.node_qos_enforcer.core.peaks.models import EXPIRES_S, TRAINING_S, Known, Models
from berth.node_qos_enforcer.core.peaks.reclaimable import Rule
from berth.rules.cpus.qos import BATCH, PROD

RULE = Rule(cold_start_s=3_600.0)
NODE = {"cpu": 64_000, "memory": 256 << 30}
BEGIN_S = 1_700_000_000.0
GIB = 1 << 30
SHOP = Known("shop-1", "ReplicaSet/default/shop", PROD, {"cpu": 16_000, "memory": 64 * GIB})
NIGHT = Known("night-1", "Job/default/night", BATCH, {"cpu": 8_000, "memory": 8 * GIB})


def trained(minutes, *, models=None, begin_s=BEGIN_S, known=(SHOP,), cpu_milli=2_000):
    models = models or Models()
    each = Usage(cpu_milli=cpu_milli, memory_bytes=4 * GIB)
    node = Usage(cpu_milli=(len(known) + 1) * cpu_milli, memory_bytes=(len(known) + 1) * 4 * GIB)
    for minute in range(minutes + 1):
        used = dict.fromkeys((pod.uid for pod in known), each)
        models.train(begin_s + minute * TRAINING_S, node, used, {pod.uid: pod for pod in known})
    return models, begin_s + minutes * TRAINING_S


def test_nothing_is_predicted_before_the_node_is_known_for_long_enough():
    models, now_s = trained(60)
    assert models.reclaimable(now_s, [SHOP], NODE, RULE) is None
    models, now_s = trained(61)
    found = models.reclaimable(now_s, [SHOP], NODE, RULE)
    assert 11_000 < found["cpu"] < 14_000
    assert 50 * GIB < found["memory"] < 64 * GIB


def test_a_new_pod_is_known_for_as_long_as_its_workload():
    models, now_s = trained(61)
    successor = SHOP._replace(uid="shop-2")
    stranger = SHOP._replace(uid="shop-3", workload="ReplicaSet/default/other")
    models, now_s = trained(0, models=models, begin_s=now_s + 60, known=(successor, stranger))
    assert models.reclaimable(now_s, [successor], NODE, RULE)["cpu"] > 10_000
    assert models.reclaimable(now_s, [stranger], NODE, RULE)["cpu"] == 0


def test_batch_pods_leave_nothing():
    models, now_s = trained(61, known=(SHOP, NIGHT))
    assert models.reclaimable(now_s, [NIGHT], NODE, RULE) == {"cpu": 0, "memory": 0}


def test_what_was_not_trained_for_long_is_forgotten():
    models, now_s = trained(61)
    models.forget(now_s + EXPIRES_S + 1)
    assert not models.pods
    assert not models.items
    assert models.workloads
    assert models.reclaimable(now_s + EXPIRES_S + 1, [SHOP], NODE, RULE) is None


def test_a_checkpoint_brings_back_the_same_prediction():
    models, now_s = trained(61)
    again = read("n1", written("n1", models), now_s + 300)
    # Weights are kept in ten thousandths of the heaviest, of which a percentile may fall into the next bucket.
    found, expected = (each.reclaimable(now_s + 300, [SHOP], NODE, RULE) for each in (again, models))
    assert found["cpu"] == pytest.approx(expected["cpu"], rel=0.06)
    assert found["cpu"] <= expected["cpu"]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda text: text[:-1], "checksum"),
        (lambda text: text.replace(b"shop-1", b"shop-2"), "checksum"),
        (lambda text: b"berth-peaks 2" + text[13:], "version 2"),
        (lambda text: b"", "no checkpoint"),
        (lambda text: b"\x00" * 4096, "no checkpoint"),
    ],
)
def test_a_checkpoint_of_no_use_says_why(damage, why):
    models, now_s = trained(2)
    with pytest.raises(UnusableError, match=why):
        read("n1", damage(written("n1", models)), now_s)


def test_a_checkpoint_of_another_node_or_of_tomorrow_is_of_no_use():
    models, now_s = trained(2)
    with pytest.raises(UnusableError, match="node 'n1'"):
        read("n2", written("n1", models), now_s)
    with pytest.raises(UnusableError, match="ahead"):
        read("n1", written("n1", models), now_s - 86_400)


def test_lost_means_cold():
    models, now_s = trained(61)
    assert models.reclaimable(now_s, [SHOP], NODE, RULE) is not None
    again, later_s = trained(59, begin_s=now_s)
    assert again.reclaimable(later_s, [SHOP], NODE, RULE) is None
