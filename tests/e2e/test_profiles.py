"""A KubeSchedulerConfiguration in a ConfigMap: taken up as it changes, and what is wrong with it named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.e2e.clusters import HOME, cluster_of
from tests.e2e.conftest import Command
from tests.e2e.corner import Corner
from tests.e2e.waiting import until
from tests.e2e.whole import Whole, run_whole

from berth.cli.commands.status import ask_status
from berth.contracts import names
from berth.contracts.slo import CONFIG_MAP as STRATEGIES

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MAPS = f"/api/v1/namespaces/{HOME}/configmaps"
NAME = "scheduler-config"
CONFIG_MAP = f"{HOME}/{NAME}"
SECOND = "second-scheduler"
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
EAST = """
profiles:
  - schedulerName: second-scheduler
    pluginConfig:
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms: [{matchExpressions: [{key: side, operator: In, values: [east]}]}]
      - {name: Berth, args: {decides: kube-scheduler}}
"""
WEST = EAST.replace("east", "west")
WITHOUT_TAINTS = """
profiles:
  - schedulerName: second-scheduler
    plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}
"""
BROKEN = """
profiles:
  - schedulerName: second-scheduler
    plugins: {filter: {enabled: [{name: NodeHoroscope}]}}
"""
ADDED = "node(s) didn't match scheduler-enforced node affinity"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(kind: str) -> AsyncIterator[Whole]:
    settings = {
        "BERTH_SCHEDULER_NAMES": f"{names.SCHEDULER_NAME},{SECOND}",
        "BERTH_SCHEDULER_CONFIG_MAP": CONFIG_MAP,
        "BERTH_CONFIG_MAPS": f"{STRATEGIES},{CONFIG_MAP}",
    }
    with cluster_of(kind) as cluster:
        async with run_whole(cluster, environment=settings) as running:
            await running.try_call("POST", "/api/v1/namespaces", {"metadata": {"name": HOME}})
            yield running


@pytest_asyncio.fixture(loop_scope="module")
async def config(whole: Whole) -> AsyncIterator[Config]:
    made = Config(whole)
    yield made
    await whole.try_call("DELETE", f"{MAPS}/{NAME}")
    await made.holds("default (native)")


class Config:
    """The ConfigMap, and what the solver says of it."""

    def __init__(self, whole: Whole) -> None:
        self._whole = whole
        self._is_there = False

    async def write(self, text: str) -> None:
        data = {"config.yaml": HEAD + text}
        if self._is_there:
            await self._whole.patch(f"{MAPS}/{NAME}", {"data": data})
        else:
            meta = {"name": NAME, "namespace": HOME}
            await self._whole.call(
                "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            )
            self._is_there = True

    async def holds(self, state: str) -> str:
        """The state of the profiles, once it begins like this."""

        async def look() -> str:
            (answer,) = (await ask_status(self._whole.bus))["placement-solver"]
            found = str(answer.facts["profiles"])
            return found if found.startswith(state) else ""

        return await until(look, f"profiles to be {state!r}")


async def second(corner: Corner, name: str, **more: Any) -> str:
    """A pod of the second scheduler name."""
    return await corner.pod(name, scheduler=SECOND, **more)


async def test_added_affinity_holds_for_its_profile_and_changes_without_a_restart(
    whole: Whole, corner: Corner, config: Config
) -> None:
    east = await corner.node("east", labels={"side": "east"})
    west = await corner.node("west", labels={"side": "west"})
    starts = {process.name: process.starts for process in whole.stack.services()}
    await config.write(EAST)
    await config.holds(f"{SECOND} (kube-scheduler)")
    pods = await corner.bound(*[await second(corner, f"e{i}") for i in range(3)])
    assert {pod["spec"]["nodeName"] for pod in pods} == {east}
    await second(corner, "torn", nodeSelector={"side": "west"})
    await corner.refused("torn", f"1 {ADDED}", "1 node(s) didn't match Pod's node affinity/selector")
    await corner.bound(await corner.pod("first", nodeSelector={"side": "west"}))  # of the first name: not concerned

    await config.write(WEST)
    (torn,) = await corner.bound("torn")
    assert torn["spec"]["nodeName"] == west
    (pod,) = await corner.bound(await second(corner, "w"))
    assert pod["spec"]["nodeName"] == west
    assert {process.name: process.starts for process in whole.stack.services()} == starts


async def test_a_filter_is_switched_off(corner: Corner, config: Config) -> None:
    await corner.node("t", taints=[{"key": "team", "value": "red", "effect": "NoSchedule"}])
    await second(corner, "p")
    await corner.refused("p", "1 node(s) had untolerated taint(s)")
    await config.write(WITHOUT_TAINTS)
    await corner.bound("p")
    await corner.pod("first")
    await corner.refused("first", "1 node(s) had untolerated taint(s)")


@pytest.mark.parametrize(
    ("text", "field", "word"),
    [
        (BROKEN, "profiles[0].plugins.filter.enabled[0].name", "NodeHoroscope"),
        (EAST.replace("operator: In", "operator: Near"), "profiles[0].pluginConfig[0].args.addedAffinity", "Near"),
        ("profilez: []\n", "profilez", ""),
        ("profiles: [\n", "", ""),
    ],
    ids=["a plugin that nobody knows", "an affinity that cannot be read", "a field that nobody knows", "no YAML"],
)
async def test_a_broken_one_leaves_the_one_before_and_is_shown(
    whole: Whole, corner: Corner, config: Config, berth: Command, text: str, field: str, word: str
) -> None:
    east = await corner.node("east", labels={"side": "east"})
    await corner.node("west", labels={"side": "west"})
    await config.write(EAST)
    await config.holds(f"{SECOND} (kube-scheduler)")
    before = await whole.counted("placement-solver", "berth_solver_configurations_refused")
    await config.write(text)
    said = await config.holds("refused, the one before holds: ")
    assert field in said
    assert word in said
    told = berth("status", "--nats", whole.stack.nats_url)
    assert "".join(said.split())[:120] in "".join(told.out.split()), told.out
    assert await whole.counted("placement-solver", "berth_solver_configurations_refused") > before
    assert await whole.counted("placement-solver", "berth_solver_configuration_problems") >= 1
    (pod,) = await corner.bound(await second(corner, "p"))
    assert pod["spec"]["nodeName"] == east, "the one before holds"
    await config.write(WEST)
    await config.holds(f"{SECOND} (kube-scheduler)")
