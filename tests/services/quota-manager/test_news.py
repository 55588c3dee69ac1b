"""News that is easily missed: what a min hides and what an echo of an older write hides."""

from __future__ import annotations

from typing import Any

from tests.services.worlds.quota.feed import Feed

from berth.bus.port import Entry
from berth.contracts import names
from berth.contracts.codec import encode
from berth.contracts.quota import QuotaGroup
from berth.contracts.subjects import namespaced_key, quota_key
from berth.quota_manager.reconciler import Reconciler


class Bucket:
    """QUOTA behind a slow bus: what is written is there at once, and is shown when the test says."""

    def __init__(self, reconciler: Reconciler) -> None:
        self.reconciler = reconciler
        self.groups: dict[str, QuotaGroup | None] = {}

    def write(self, now_ms: int) -> dict[str, QuotaGroup | None]:
        self.reconciler.settle(now_ms / 1000)
        changes = self.reconciler.writes(now_ms, [key for key, group in self.groups.items() if group is not None])
        self.groups |= changes
        return changes

    def echo(self, key: str, group: QuotaGroup | None) -> None:
        value = b"" if group is None else encode(group)
        self.reconciler.published.apply(Entry(key, value, group is None, 1, 0, False, None))


def shown(reconciler: Reconciler, now: float) -> dict[str, Any]:
    reconciler.settle(now)
    return {patch.name: patch.annotations for patch in reconciler.patches(now, 100)}


def test_what_the_pods_of_a_group_that_does_not_lend_ask_for_is_shown() -> None:
    feed = Feed(interval_s=2.0)
    feed.node("n")
    annotations = {
        names.ANNOTATION_QUOTA_RUNTIME: '{"cpu":"4"}',
        names.ANNOTATION_QUOTA_REQUEST: '{"cpu":"4"}',
        names.ANNOTATION_QUOTA_STATE: '{"effectiveMin":{"cpu":"4"}}',
    }
    feed.quota("a", minimum=4000, annotations=annotations, allow_lent_resource="false")
    feed.complete()
    assert shown(feed.reconciler, 1.0) == {}
    feed.pod("p", quota="a", cpu=1000)
    assert shown(feed.reconciler, 10.0) == {
        "a": {
            names.ANNOTATION_QUOTA_CHILD_REQUEST: '{"cpu":"1"}',
            names.ANNOTATION_QUOTA_STATE: '{"effectiveMin":{"cpu":"4"},"waitingPods":1}',
        }
    }


def test_a_group_that_returns_before_its_echoes_is_published() -> None:
    feed = Feed()
    feed.quota("a")
    feed.complete()
    bucket, key = Bucket(feed.reconciler), quota_key("", "a")
    first = bucket.write(1000)[key]
    feed.delete(namespaced_key("elasticquota", "ns", "a"))
    assert bucket.write(1005)[key] is None
    bucket.echo(key, first)
    feed.quota("a")
    again = bucket.write(1010)
    bucket.echo(key, None)
    if key in again:
        bucket.echo(key, again[key])
    bucket.write(2000)
    assert bucket.groups[key] is not None
