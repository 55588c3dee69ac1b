from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.cli.demo.scenario import scenario
from berth.cli.demo.stage import key_of
from berth.cli.limits import NODES_MIN
from berth.cli.load.api import path_of


def test_the_same_seed_creates_the_same_objects() -> None:
    assert scenario(20, 7) == scenario(20, 7)
    assert scenario(20, 7) != scenario(20, 8)


def test_a_size_out_of_range_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="nodes"):
        scenario(NODES_MIN - 1, 7)


@settings(max_examples=15, deadline=None)
@given(st.integers(NODES_MIN, 60), st.integers(0, 1000))
def test_every_scenario_has_a_gang_that_fits_its_quota_and_distinct_pods(nodes: int, seed: int) -> None:
    plot = scenario(nodes, seed)
    members = [each for each in plot.gang if each["kind"] == "Pod"]
    assert 2 <= len(members) <= plot.gpus
    assert plot.gang[0]["spec"]["minMember"] == len(members)
    most = int(plot.quota["spec"]["max"]["koordinator.sh/gpu-core"])
    asked = int(plot.over_quota["spec"]["containers"][0]["resources"]["requests"]["koordinator.sh/gpu-core"])
    assert 100 * len(members) <= most < 100 * len(members) + asked
    jobs = [each for each in [*plot.sweep, *plot.deadline] if each["kind"] == "Pod"]
    odd = [*plot.apart, *plot.reports, *jobs, *plot.alone]
    pods = [key_of(each) for each in [*plot.batch, *members, *plot.shared, *odd, *plot.late]]
    assert len(set(pods)) == len(pods) == plot.pods


def test_manifests_know_their_collections() -> None:
    plot = scenario(NODES_MIN, 7)
    assert path_of(plot.cluster[0]) == "/api/v1/nodes"
    assert path_of(plot.owner) == "/api/v1/namespaces/default/pods"
    assert path_of(plot.reservation) == "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
    assert path_of(plot.storage[0]) == "/apis/storage.k8s.io/v1/storageclasses"
    assert path_of(plot.storage[1]) == "/api/v1/namespaces/default/persistentvolumeclaims"
    assert path_of(plot.quota) == "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas"
    assert path_of(plot.gang[0]) == "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
