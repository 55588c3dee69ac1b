"""Write-back of figures: only what differs, not too often."""

import json

from berth.contracts import names, state
from berth.quota_manager.core.writeback import Pace, patch, shown_by


def shown(annotations=None, used=None):
    return shown_by(
        state.ElasticQuota(namespace="ns", name="q", uid="u", version=1, annotations=annotations or {}, used=used or {})
    )


FIGURES = {names.ANNOTATION_QUOTA_RUNTIME: {"cpu": 5000}, names.ANNOTATION_QUOTA_REQUEST: {"cpu": 6000, "gpu": 0}}


def test_figures_are_written_as_the_protocol_shows_them():
    asked = patch(shown(), FIGURES, {"cpu": 5000, "memory": 4 << 30})
    assert asked is not None
    assert (asked.api, asked.namespace, asked.name, asked.uid) == (
        "scheduling.sigs.k8s.io/v1alpha1/elasticquotas",
        "ns",
        "q",
        "u",
    )
    assert asked.annotations[names.ANNOTATION_QUOTA_RUNTIME] == '{"cpu":"5"}'
    assert json.loads(asked.annotations[names.ANNOTATION_QUOTA_REQUEST]) == {"cpu": "6", "gpu": "0"}
    assert asked.status == {"used": {"cpu": "5", "memory": "4Gi"}}
    assert asked.status_subresource is False


def test_nothing_is_asked_when_the_object_shows_it_already():
    annotations = {
        names.ANNOTATION_QUOTA_RUNTIME: '{"cpu":"5000m","memory":0}',
        names.ANNOTATION_QUOTA_REQUEST: '{"cpu":6}',
    }
    assert patch(shown(annotations, {"cpu": 5000, "gpu": 0}), FIGURES, {"cpu": 5000}) is None


def test_only_what_differs_is_written_and_unreadable_values_are_replaced():
    annotations = {names.ANNOTATION_QUOTA_RUNTIME: "junk", names.ANNOTATION_QUOTA_REQUEST: '{"cpu":6}'}
    asked = patch(shown(annotations, {"cpu": 5000}), FIGURES, {"cpu": 5000})
    assert asked is not None
    assert asked.annotations == {names.ANNOTATION_QUOTA_RUNTIME: '{"cpu":"5"}'}
    assert asked.status is None


def test_what_is_no_longer_used_becomes_zero():
    asked = patch(shown({}, {"gpu": 3, "cpu": 1}), {}, {"cpu": 1})
    assert asked is not None
    assert asked.status == {"used": {"gpu": "0", "cpu": "1m"}}


def test_a_group_is_looked_at_once_per_interval():
    pace = Pace(2.0)
    pace.want("a", 10.0)
    pace.want("b", 10.0)
    assert pace.take(10.0, 1) == ["a"]
    assert pace.take(10.0, 5) == ["b"]
    for moment in (10.1, 10.5, 11.9):
        pace.want("a", moment)
        assert pace.take(moment, 5) == []
    assert len(pace) == 1
    assert pace.take(12.0, 5) == ["a"]
    assert pace.take(99.0, 5) == []


def test_a_repetition_gives_way_to_news():
    pace = Pace(2.0)
    pace.want("a", 0.0)
    pace.take(0.0, 5)
    pace.again("a", 30.0)
    pace.want("a", 1.0)
    assert pace.take(2.0, 5) == ["a"]
    assert pace.take(30.0, 5) == [], "the later mark was replaced"
    pace.again("a", 40.0)
    assert pace.take(39.0, 5) == []
    assert pace.take(40.0, 5) == ["a"]


def test_unknown_groups_are_forgotten():
    pace = Pace(2.0)
    pace.want("a", 0.0)
    pace.want("b", 0.0)
    pace.keep({"b"})
    assert pace.take(1.0, 5) == ["b"]
    assert len(pace) == 0
