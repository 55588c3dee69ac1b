"""What a reflector tells, and what becomes of it before the bus."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from berth.cluster_watcher.core.published_view import PublishedView
from berth.cluster_watcher.kinds import CONFIG_MAPS, KINDS, WEBHOOKS, Kind, scopes
from berth.cluster_watcher.outbox import WAITING_MAX, Absent, Gone, Nothing, Outbox, Put
from berth.cluster_watcher.reconciler import ABSENT_AFTER_S, Reconciler
from berth.cluster_watcher.settings import Settings
from berth.cluster_watcher.source import Source
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.kube import AnyObject, Meta
from berth.kube import Answer
from berth.kube.answer import NOT_INSTALLED
from berth.runtime import SettingsError, SystemClock, load_settings


class Bench:
    """An intake with its surroundings."""

    def __init__(self, name: str, config_maps: tuple[str, ...] = ()) -> None:
        self.source = Source(next(scope for scope in scopes(list(config_maps)) if scope.name == name))
        self.kind: Kind = self.source.scope.kind
        self.published = PublishedView()
        self.outbox = Outbox(SystemClock())
        self.reported: list[str] = []
        self.intake = Reconciler(
            self.source,
            self.outbox,
            self.published,
            clock=SystemClock(),
            report=lambda kind, key, problem: self.reported.append(f"{kind} {key} {problem.field}"),
        )

    def item(self, **more: Any) -> Any:
        whole = {"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}} | more
        return msgspec.json.decode(json.dumps(whole).encode(), type=self.kind.item)

    def step(self) -> Any:
        step = self.outbox.first()
        self.outbox.take()
        return step


def test_a_change_becomes_one_step() -> None:
    bench = Bench("pods")
    bench.intake.changed("ADDED", bench.item(spec={"nodeName": "n"}))
    step = bench.step()
    assert isinstance(step, Put)
    assert (step.key, step.version) == ("pod.ns.a", 7)
    assert decode(step.value, state.Pod).node == "n"
    assert bench.reported == []
    bench.intake.deleted(AnyObject(metadata=Meta(name="a", namespace="ns")), 9)
    assert bench.step() == Gone(bench.source, "pod.ns.a", 9)


def test_a_pod_that_cannot_be_read_does_not_replace_what_is_known_of_it() -> None:
    bench = Bench("pods")
    bench.intake.malformed("ns/a", "u", 8, "metadata.labels", "no")
    step = bench.step()
    assert isinstance(step, Put)
    assert [problem.field for problem in decode(step.value, state.Pod).problems] == ["metadata.labels"]
    bench.published.put("pod.ns.a", 7, 1)
    bench.intake.malformed("ns/a", "u", 9, "metadata.labels", "no")
    assert bench.step() == Nothing(bench.source, 9)
    bench.intake.malformed("", "", 9, "", "no")
    assert bench.outbox.first() is None
    assert bench.reported == ["pods ns/a metadata.labels"] * 2 + ["pods an object without a name "]


def test_a_node_that_cannot_be_read_offers_nothing() -> None:
    bench = Bench("nodes")
    bench.published.put("node.a", 7, 1)
    bench.intake.malformed("a", "u", 8, "status", "no")
    node = decode(bench.step().value, state.Node)
    assert (node.name, node.allocatable, len(node.problems)) == ("a", {}, 1)


def test_what_does_not_fit_the_bus_is_passed_over_and_said() -> None:
    bench = Bench("configmap ns/a", ("ns/a",))
    bench.intake.changed("ADDED", bench.item(data={"x": "y" * (1 << 20)}))
    assert bench.step() == Nothing(bench.source, 7)
    assert bench.reported == ["configmaps configmap.ns.a "]


def test_a_closed_intake_is_silent() -> None:
    bench = Bench("pods")
    bench.intake.close()
    bench.intake.began()
    bench.intake.seen(b"", bench.item(), 7)
    bench.intake.changed("ADDED", bench.item())
    bench.intake.deleted(bench.item(), 8)
    bench.intake.bookmark(9)
    bench.intake.finished(9, frozenset())
    bench.intake.malformed("ns/a", "u", 8, "x", "y")
    assert len(bench.outbox) == 0


async def test_reading_stops_while_the_bus_is_behind() -> None:
    bench = Bench("pods")
    item = bench.item()
    for _ in range(WAITING_MAX):
        bench.intake.changed("MODIFIED", item)
    waiting = asyncio.create_task(bench.intake.wait_while_full())
    await asyncio.sleep(0)
    assert not waiting.done()
    while len(bench.outbox) >= WAITING_MAX // 2:
        bench.outbox.take()
    async with asyncio.timeout(5):
        await waiting


def test_a_single_config_map_is_a_scope_of_its_own() -> None:
    scope = scopes(["kube-system/x.y", "kube-system/x.y"])[-1]
    assert (scope.kind, scope.marker, scope.only_key) == (CONFIG_MAPS, scope.only_key, "configmap.kube-system.x_y")
    assert scope.selection.namespace == "kube-system"
    assert scope.selection.field_selector == "metadata.name=x.y"
    assert scope.covers("configmap.kube-system.x_y")
    assert not scope.covers("configmap.kube-system.z")
    assert len({each.name for each in scopes([])}) == len(KINDS) + len(WEBHOOKS)


@pytest.mark.parametrize("value", ["x", "/x", "x/", "a/b/c"])
def test_config_maps_are_named_in_full(value: str) -> None:
    with pytest.raises(SettingsError, match="BERTH_CONFIG_MAPS"):
        load_settings(Settings, {"BERTH_CONFIG_MAPS": value})
    assert load_settings(Settings, {"BERTH_CONFIG_MAPS": "a/b,c/d"}).config_maps == ("a/b", "c/d")


def test_a_kind_is_absent_when_the_server_says_so_for_a_while() -> None:
    bench = Bench("devices")
    missing = Answer(404, b"", NOT_INSTALLED)
    bench.intake.refused(missing, 1.0)
    assert bench.outbox.first() is None, "one answer may come from a server that is just starting"
    bench.source.missing_since = -ABSENT_AFTER_S
    bench.intake.refused(Answer(503, b"", "ServiceUnavailable"), 1.0)
    bench.intake.refused(missing, 1.0)
    assert bench.outbox.first() is None, "another answer in between begins the count anew"
    bench.source.missing_since = -ABSENT_AFTER_S
    bench.intake.refused(missing, 1.0)
    assert bench.step() == Absent(bench.source)


@pytest.mark.parametrize("news", ["changed", "deleted"])
def test_a_refusal_is_over_with_the_first_news(news: str) -> None:
    bench = Bench("pods")
    bench.source.synced = True
    bench.intake.refused(Answer(0, b"", "Timeout"), 1.0)
    assert bench.source.describe() != "synced"
    if news == "changed":
        bench.intake.changed("MODIFIED", bench.item())
    else:
        bench.intake.deleted(bench.item(), 8)
    assert bench.source.describe() == "synced"


def test_a_404_that_discovery_does_not_confirm_says_nothing() -> None:
    bench = Bench("pods")
    bench.source.missing_since = -ABSENT_AFTER_S
    bench.intake.refused(Answer(404, b"", "NotFound"), 1.0)
    assert bench.outbox.first() is None
