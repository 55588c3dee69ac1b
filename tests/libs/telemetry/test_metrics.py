import pytest
from prometheus_client import CollectorRegistry, generate_latest

from berth.telemetry import counter, gauge, histogram


@pytest.fixture
def registry():
    return CollectorRegistry()


def test_the_three_kinds_are_exposed(registry):
    counter("berth_quota_refusals_total", "Refusals.", ["reason"], registry=registry).labels("full").inc()
    gauge("berth_quota_groups", "Groups.", registry=registry).set(3)
    histogram("berth_quota_update_seconds", "Time.", registry=registry).observe(0.004)
    text = generate_latest(registry).decode()
    assert 'berth_quota_refusals_total{reason="full"} 1.0' in text
    assert "berth_quota_groups 3.0" in text
    assert 'berth_quota_update_seconds_bucket{le="0.005"} 1.0' in text


def test_asking_again_gives_the_same_metric(registry):
    first = counter("berth_quota_refusals_total", "Refusals.", ["reason"], registry=registry)
    assert counter("berth_quota_refusals_total", "Refusals.", ["reason"], registry=registry) is first
    with pytest.raises(ValueError, match="twice"):
        counter("berth_quota_refusals_total", "Refusals.", ["other"], registry=registry)
    with pytest.raises(ValueError, match="twice"):
        gauge("berth_quota_refusals", "Another type, same name without its suffix.", ["reason"], registry=registry)


@pytest.mark.parametrize(
    ("make", "name", "labels", "message"),
    [
        (counter, "berth_quota_refusals", [], "_total"),
        (gauge, "berth_quota_groups_total", [], "only counters"),
        (histogram, "berth_quota_update", [], "unit"),
        (gauge, "quota_groups", [], "look like"),
        (gauge, "berth_Groups_x", [], "look like"),
        (gauge, "berth_groups", [], "look like"),
        (gauge, "berth_quota_groups", ["pod"], "no bound"),
        (gauge, "berth_quota_groups", ["uid"], "no bound"),
        (gauge, "berth_quota_groups", ["Mode"], "not a label name"),
    ],
)
def test_names_and_labels_outside_the_rule(registry, make, name, labels, message):
    with pytest.raises(ValueError, match=message):
        make(name, "Help.", labels, registry=registry)
