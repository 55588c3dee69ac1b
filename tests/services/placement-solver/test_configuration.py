"""A configuration from a text or a ConfigMap: read while the solver runs; one that is broken changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from berth.contracts import names, subjects
from berth.contracts.kube import Taint
from berth.contracts.state import ConfigMap, Synced
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.config_file import LOOK_EVERY_S, follow_file, read_file
from berth.placement_solver.core.profiles import Configuration
from berth.placement_solver.settings import Settings
from berth.rules.queueing import BackOff
from berth.runtime.settings import SettingsError, load_settings
from berth.testing.builders import pod
from berth.testing.feed import Feed

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OURS = HEAD + f"profiles: [{{schedulerName: {names.SCHEDULER_NAME}}}]"
BY_SCORE = (
    HEAD
    + f"profiles: [{{schedulerName: {names.SCHEDULER_NAME}, "
    + "pluginConfig: [{name: Berth, args: {decides: kube-scheduler}}]}, {schedulerName: other}]"
)
BROKEN = HEAD + "profiles: [{plugins: {score: {enabled: [{name: Nothing}]}}}]"
KEY = subjects.namespaced_key("configmap", "kube-system", "sched")


@pytest.fixture
def run(solving: Any) -> Any:
    return solving()


# --- which one holds -------------------------------------------------------------------------------------------------


def test_a_broken_text_leaves_the_one_before() -> None:
    configuration = Configuration()
    assert configuration.read(BY_SCORE)
    assert not configuration.read(BROKEN)
    assert configuration.config.profiles[names.SCHEDULER_NAME].decides == "kube-scheduler"
    assert "Nothing" in configuration.state
    assert configuration.state.startswith("refused, the one before holds: profiles[0].plugins.score.enabled[0].name")
    assert not configuration.read(BROKEN)
    assert configuration.broken == 1
    assert not configuration.read(BY_SCORE)
    assert configuration.problems == ()
    assert configuration.state == f"{names.SCHEDULER_NAME} (kube-scheduler), other (native)"


def test_what_is_wrong_with_a_text_that_is_no_yaml_is_one_line() -> None:
    configuration = Configuration()
    assert not configuration.read("profiles: [\n")
    assert "\n" in configuration.problems[0].message
    assert "\n" not in configuration.state


def test_a_broken_first_text_says_that_nothing_is_planned() -> None:
    configuration = Configuration()
    assert configuration.state == "not read yet"
    assert not configuration.read(BROKEN)
    assert not configuration.is_known
    assert configuration.state.startswith("refused, nothing is planned: ")


@pytest.mark.parametrize("key", ["config.yaml", "scheduler-config.yaml", "config", "whatever"])
def test_the_text_of_a_config_map(key: str) -> None:
    configuration = Configuration()
    assert configuration.read_config_map({key: OURS})
    assert names.SCHEDULER_NAME in configuration.config.profiles


def test_a_config_map_without_a_text() -> None:
    configuration = Configuration()
    for _ in range(2):
        assert not configuration.read_config_map({"a": OURS, "b": OURS})
    assert configuration.broken == 1
    assert configuration.problems[0].field == "data"
    assert configuration.read_config_map(None)
    assert configuration.is_known


# --- rules that hold -------------------------------------------------------------------------------------------------


def test_a_plugin_that_is_off_rules_no_node_out(run: Any) -> None:
    """Neither for the solver nor for the verifier, which `round` asks."""
    run.node("n", taints=[Taint(key="a", effect="NoSchedule")], unschedulable=True)
    run.pod(pod("p").requests(cpu=100))
    assert [reason.code for refusal in run.round().refusals for reason in refusal.reasons] == ["NodeUnschedulable"]
    run.configure(plugins={"multiPoint": {"disabled": [{"name": "TaintToleration"}, {"name": "NodeUnschedulable"}]}})
    assert run.cluster.capacity_came_back, "who was refused is tried again"
    run.cluster.now += 60
    run.cluster.queue.wake(run.cluster.now)
    solution = run.round()
    assert run.nodes_of(solution) == {"p": "n"}
    (decision,), _ = run.decide(solution)
    assert decision.unasked == ["NodeUnschedulable", "TaintToleration"], "the last check is named"


def test_who_ignores_a_resource_is_not_asked_for_amounts_later(run: Any) -> None:
    run.node("n")
    run.configure(pluginConfig=[{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/license"]}}])
    run.pod(pod("p").requests({"cpu": 100, "example.com/license": 1}))
    (decision,), _ = run.decide(run.round())
    assert decision.unasked == ["NodeResourcesFit"]


def test_a_decision_under_the_default_profile_has_every_last_check(run: Any) -> None:
    run.node("n")
    run.pod(pod("p").requests(cpu=100))
    (decision,), _ = run.decide(run.round())
    assert decision.unasked == []


SCARCE = {"name": "ScarceResourceAvoidance", "args": {"resources": ["example.com/gpu"]}}
PACKS_GPUS = {
    "name": "NodeResourcesFitPlus",
    "args": {"resources": {"example.com/gpu": {"type": "MostAllocated", "weight": 2}, "cpu": {"weight": 1}}},
}


@pytest.mark.parametrize("decides", ["native", "kube-scheduler"])
def test_pods_that_need_nothing_scarce_leave_it(run: Any, decides: str) -> None:
    """Whatever decides: who lists a plugin that no default has means it."""
    berth = {"name": "Berth", "args": {"decides": decides}}
    on = {"multiPoint": {"enabled": [{"name": "ScarceResourceAvoidance", "weight": 100}]}}
    run.configure(plugins=on, pluginConfig=[SCARCE, berth])
    run.node("scarce", cpu=64_000, extended={"example.com/gpu": 8})
    run.node("plain", cpu=2_000)
    run.pod(pod("p").requests(cpu=1_000))
    run.pod(pod("q").requests({"example.com/gpu": 1}, cpu=100))
    assert run.nodes_of(run.round()) == {"p": "plain", "q": "scarce"}


@pytest.mark.parametrize("decides", ["native", "kube-scheduler"])
def test_one_resource_is_packed_although_others_are_spread(run: Any, decides: str) -> None:
    berth = {"name": "Berth", "args": {"decides": decides}}
    on = {"multiPoint": {"enabled": [{"name": "NodeResourcesFitPlus", "weight": 100}]}}
    run.configure(plugins=on, pluginConfig=[PACKS_GPUS, berth])
    for name in ("a", "b"):
        run.node(name, cpu=64_000, extended={"example.com/gpu": 8})
    run.pod(pod("there").requests({"example.com/gpu": 4}, cpu=32_000).on("b"))
    run.pod(pod("p").requests({"example.com/gpu": 1}, cpu=1_000))
    assert run.nodes_of(run.round()) == {"p": "b"}


@pytest.mark.parametrize("name", ["NodeResourcesFitPlus", "ScarceResourceAvoidance"])
def test_what_no_default_has_is_not_looked_at(run: Any, name: str) -> None:
    """Arguments alone switch nothing on."""
    rules = run.cluster.profiles.default
    listed = (*rules.scores_of_class, *rules.scores_of_pod)
    assert name not in [each.score.name for each in listed]
    run.configure(pluginConfig=[SCARCE, PACKS_GPUS])
    rules = run.cluster.profiles.of(names.SCHEDULER_NAME)
    assert name not in [each.score.name for each in (*rules.scores_of_class, *rules.scores_of_pod)]


def test_resources_that_the_filter_leaves_to_others(run: Any) -> None:
    args = {"ignoredResources": ["example.com/a"], "ignoredResourceGroups": ["example.org"]}
    run.configure(pluginConfig=[{"name": "NodeResourcesFit", "args": args}])
    run.node("n", cpu=1000)
    run.pod(pod("p").requests({"example.com/a": 1, "example.org/b": 1}, cpu=100))
    run.pod(pod("q").requests({"example.com/c": 1}, cpu=100))
    solution = run.round()
    assert run.nodes_of(solution) == {"p": "n"}
    assert [reason.message for refusal in solution.refusals for reason in refusal.reasons] == [
        "Insufficient example.com/c"
    ]


def test_a_filter_that_is_off(run: Any) -> None:
    run.configure(plugins={"filter": {"disabled": [{"name": "NodeResourcesFit"}]}})
    run.node("n", cpu=100, pods=0)
    run.pod(pod("p").requests(cpu=1000))
    assert run.nodes_of(run.round()) == {"p": "n"}


def test_profiles_of_names_that_are_not_ours_place_nobody(run: Any) -> None:
    run.cluster.configuration.read(BY_SCORE)
    assert run.cluster.configuration.foreign == ["other"]
    run.node("n")
    run.pod(pod("p").requests(cpu=100).template(scheduler="other"))
    assert run.round().placements == ()
    assert run.cluster.profile_of("other").decides == "native"


def test_a_configuration_that_holds_for_nobody_says_so_loudly(run: Any) -> None:
    """kube-scheduler's own, whose profile names no scheduler."""
    states: list[str] = []
    run.cluster.configuration.on_change = lambda: states.append(run.cluster.configuration.state)
    assert run.cluster.configuration.idle == ""
    run.cluster.configuration.read(HEAD)
    assert run.cluster.configuration.idle == (
        "NOBODY is placed by this configuration: it has no profile for schedulerName berth-scheduler, "
        "only for default-scheduler"
    )
    assert states == [f"{run.cluster.configuration.idle}; default-scheduler (native)"]
    run.cluster.configuration.read(HEAD)
    assert len(states) == 1, "once"
    run.cluster.configuration.read(BROKEN)
    assert states[-1].startswith("refused, the one before holds: ")
    assert run.cluster.configuration.idle in states[-1]
    run.cluster.configuration.read(BY_SCORE)
    assert run.cluster.configuration.idle == ""
    assert states[-1] == run.cluster.configuration.state
    run.cluster.configuration.refuse("/a", "cannot be read: no")
    assert "/a: cannot be read" in states[-1]


def test_back_off_is_that_of_the_configuration(run: Any) -> None:
    config = (
        HEAD
        + f"podInitialBackoffSeconds: 3\npodMaxBackoffSeconds: 5\nprofiles: [{{schedulerName: {names.SCHEDULER_NAME}}}]"
    )
    run.cluster.configuration.read(config)
    pauses = []
    run.node("n", cpu=10)
    run.pod(pod("p").requests(cpu=100))
    for _ in range(3):
        run.cluster.wake()
        run.round()
        run.node("n", cpu=10 + len(pauses) + 1, pods=110 + len(pauses) + 1)
        run.cluster.capacity_came_back = True
        run.cluster.wake()
        began = run.cluster.now
        while not run.cluster.queue.has_ready(run.cluster.now):
            run.cluster.now += 0.5
        pauses.append(run.cluster.now - began)
    assert pauses == [3.0, 5.0, 5.0]
    run.cluster.configuration.read(None)
    assert run.cluster.queue.back_off == BackOff()


def test_pods_of_two_profiles_are_of_two_classes() -> None:
    cluster = ClusterView([names.SCHEDULER_NAME, "other"], "s1")
    feed = Feed(cluster)
    feed.node("n")
    assert cluster.configuration.read(BY_SCORE)
    one, other = (pod("p").template(scheduler=name).build(0) for name in (names.SCHEDULER_NAME, "other"))
    classes = [cluster.classes.of(each.template, []) for each in (one, other)]
    assert [cls.rules.decides_by_score for cls in classes] == [True, False]


# --- a ConfigMap -----------------------------------------------------------------------------------------------------


def followed() -> tuple[ClusterView, Feed]:
    cluster = ClusterView([names.SCHEDULER_NAME], "s1", config_map=("kube-system", "sched"))
    return cluster, Feed(cluster)


def show(feed: Feed, text: str) -> None:
    feed.version += 1
    feed.state(KEY, ConfigMap(namespace="kube-system", name="sched", version=feed.version, data={"config.yaml": text}))


def mark(feed: Feed) -> None:
    feed.state(subjects.synced_key(KEY), Synced(kind=KEY, version=feed.version, complete=True))
    feed.reader.end_of_state()


def decides(cluster: ClusterView) -> str:
    return cluster.profile_of(names.SCHEDULER_NAME).decides


def test_nothing_is_known_before_the_config_map_is_read() -> None:
    cluster, feed = followed()
    assert not cluster.configuration.is_known
    show(feed, BY_SCORE)
    assert cluster.configuration.is_known
    assert decides(cluster) == "kube-scheduler"


def test_a_config_map_that_does_not_exist_means_the_defaults() -> None:
    cluster, feed = followed()
    mark(feed)
    assert cluster.configuration.is_known
    assert decides(cluster) == "native"


def test_changes_are_taken_up_and_broken_ones_are_not() -> None:
    cluster, feed = followed()
    show(feed, BY_SCORE)
    mark(feed)
    show(feed, BROKEN)
    assert decides(cluster) == "kube-scheduler"
    show(feed, OURS)
    assert decides(cluster) == "native"
    show(feed, BY_SCORE)
    feed.delete(KEY)
    assert decides(cluster) == "native"


def test_a_view_that_starts_over_keeps_the_rules_until_it_knows_better() -> None:
    cluster, feed = followed()
    show(feed, BY_SCORE)
    mark(feed)
    cluster.reset_state()
    feed.reader.end_of_state()
    assert decides(cluster) == "kube-scheduler"
    mark(feed)
    assert decides(cluster) == "native", "it was deleted meanwhile"


def test_another_config_map_is_none_of_ours() -> None:
    cluster, feed = followed()
    feed.version += 1
    key = subjects.namespaced_key("configmap", "kube-system", "slo")
    feed.state(key, ConfigMap(namespace="kube-system", name="slo", version=feed.version, data={"config": BY_SCORE}))
    assert not cluster.configuration.is_known


# --- a file ----------------------------------------------------------------------------------------------------------


def test_a_file_is_read_again(tmp_path: Path) -> None:
    cluster = ClusterView([names.SCHEDULER_NAME], "s1", is_configured=True)
    file = tmp_path / "config.yaml"
    assert not read_file(cluster, file)
    assert not cluster.configuration.is_known
    assert str(file) in cluster.configuration.state
    file.write_text(BY_SCORE)
    assert read_file(cluster, file)
    assert cluster.configuration.is_known
    assert not read_file(cluster, file)
    file.write_bytes(b"\xff\xfe")
    assert not read_file(cluster, file)
    assert decides(cluster) == "kube-scheduler"
    file.write_text(OURS)
    assert read_file(cluster, file)
    assert cluster.configuration.problems == ()


@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"BERTH_SCHEDULER_CONFIG_FILE": "/a", "BERTH_SCHEDULER_CONFIG_MAP": "a/b"}, "only one"),
        ({"BERTH_SCHEDULER_CONFIG_MAP": "b"}, "namespace/name"),
        ({"BERTH_SCHEDULER_CONFIG_MAP": "a/b/c"}, "namespace/name"),
    ],
)
def test_settings_that_do_not_fit(environ: dict[str, str], word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        load_settings(Settings, environ)


def test_the_config_map_of_the_settings() -> None:
    assert load_settings(Settings, {}).config_map() is None
    assert load_settings(Settings, {"BERTH_SCHEDULER_CONFIG_MAP": "a/b"}).config_map() == ("a", "b")


async def test_a_file_is_followed_while_the_solver_runs(tmp_path: Path) -> None:
    cluster = ClusterView([names.SCHEDULER_NAME], "s1", is_configured=True)
    file = tmp_path / "config.yaml"
    texts = [BROKEN, BY_SCORE, BY_SCORE, BROKEN, OURS]
    woken: list[str] = []

    async def sleep(seconds: float) -> None:
        assert seconds == LOOK_EVERY_S
        if not texts:
            raise asyncio.CancelledError
        file.write_text(texts.pop(0))

    context: Any = SimpleNamespace(clock=SimpleNamespace(sleep=sleep))
    with pytest.raises(asyncio.CancelledError):
        await follow_file(context, cluster, file, lambda: woken.append(decides(cluster)))
    assert woken == ["kube-scheduler", "native"]
    assert cluster.configuration.broken == 2
