"""The service on a real nats-server: what it publishes, asks for and answers, alone and beside a standby."""

import asyncio
import json
import os
import sys
import time

import msgspec
from prometheus_client import REGISTRY
from tests.services.worlds.quota.world import DEADLINE_S, eventually

from berth.bus.port import Committed, Write
from berth.contracts import names
from berth.contracts.codec import decode, encode
from berth.contracts.event import ObjectRefused
from berth.contracts.ledger import AccountStamp
from berth.contracts.quota_question import QuotaAnswer, QuotaQuestion
from berth.contracts.subjects import account_key, namespaced_key, pod_key, question_subject, quota_account, quota_key


async def test_runtimes_follow_demand(world):
    world.node("n")
    world.quota("a", minimum=4000)
    world.quota("b", minimum=4000)
    world.pod("p", quota="a", cpu=6000)
    await world.start()
    await asyncio.sleep(0)
    world.complete()
    await eventually(lambda: world.groups.runtime("a") == 6000, "a borrows")
    first = world.groups.now[quota_key("", "a")].revision
    world.pod("q", quota="b", cpu=9000)
    await eventually(lambda: world.groups.runtime("b") == 5000, "b takes its share")
    await eventually(lambda: world.groups.runtime("a") == 5000, "a gives back")
    assert world.groups.now[quota_key("", "a")].revision > first
    world.state.delete(pod_key("ns", "p"))
    await eventually(lambda: world.groups.runtime("b") == 8000, "b is at its max")
    world.state.delete(namespaced_key("elasticquota", "ns", "a"))
    await eventually(lambda: world.groups.runtime("a") is None, "a is gone")
    revisions = [group.revision for key, group in world.groups.history if group and key == quota_key("", "b")]
    assert revisions == sorted(revisions)


async def test_people_are_told_how_the_groups_stand(world):
    world.node("n")
    world.quota("a", minimum=4000)
    world.quota("b", minimum=4000)
    world.pod("p", quota="a", cpu=6000)
    world.complete()
    await world.start()
    await eventually(lambda: world.groups.runtime("a") == 6000, "a borrows")
    subject = question_subject("quota-manager", "quota")
    (raw,) = await world.bus.ask_all(subject, encode(QuotaQuestion(name="a")), wait_s=1.0)
    answer = decode(raw, QuotaAnswer)
    assert (answer.ready, [each.name for each in answer.groups]) == (True, ["a"])
    assert (answer.groups[0].runtime, answer.groups[0].waiting) == ({"cpu": 6000}, 1)
    labels = {"name": "a", "resource": "cpu", "tree": "", "is_parent": "false", "parent": ""}
    shown = REGISTRY.get_sample_value
    assert shown("scheduler_elastic_quota_spec", {**labels, "field": "min"}) == 4000
    assert shown("scheduler_elastic_quota_status", {**labels, "field": "runtime"}) == 6000
    world.state.delete(namespaced_key("elasticquota", "ns", "a"))
    await eventually(lambda: world.groups.runtime("a") is None, "a is gone")
    assert shown("scheduler_elastic_quota_status", {**labels, "field": "runtime"}) is None


async def test_nothing_is_published_from_half_a_view(world):
    world.node("n")
    world.quota("a")
    await world.start()
    await eventually(lambda: world.replicas[0][0].health.readiness().get("state"), "started")
    await eventually(lambda: "waiting for" in world.replicas[0][0].health.readiness()["state"].text, "read to the end")
    assert not world.replicas[0][0].health.ready
    assert world.groups.now == {}
    world.complete()
    await eventually(lambda: world.groups.runtime("a") is not None, "published")
    assert world.replicas[0][0].health.ready


async def test_figures_are_asked_to_be_written_back(world):
    world.node("n")
    world.quota("a")
    world.pod("p", quota="a", node="n")
    world.complete()
    await world.start()
    patch = await eventually(lambda: next(iter(world.commands), None), "a patch")
    assert (patch.uid, patch.status) == ("uid-a", {"used": {"cpu": "1"}})
    assert json.loads(patch.annotations[names.ANNOTATION_QUOTA_RUNTIME]) == {"cpu": "1"}
    world.quota("a", annotations=patch.annotations, used={"cpu": 1000})
    asked = len(world.commands)
    world.pod("q", quota="a")
    await eventually(lambda: len(world.commands) > asked, "another patch")
    assert json.loads(world.commands[-1].annotations[names.ANNOTATION_QUOTA_REQUEST]) == {"cpu": "2"}
    assert world.commands[-1].status is None


async def test_many_pods_cost_few_write_backs(world):
    world.node("n")
    world.quota("a")
    world.complete()
    await world.start(writeback_interval_s=60.0)
    await eventually(lambda: world.groups.runtime("a") == 0, "published")
    for index in range(300):
        world.pod(f"p{index}", quota="a", cpu=10, node="n")
    await eventually(lambda: world.groups.runtime("a") == 3000, "all pods counted")
    assert len(world.commands) <= 1


async def test_a_bad_object_is_announced_and_the_rest_goes_on(world):
    world.node("n")
    world.quota("bad", labels={names.LABEL_QUOTA_PARENT: "bad", names.LABEL_QUOTA_IS_PARENT: "true"})
    world.quota("good")
    world.pod("p", quota="good", cpu=2000)
    world.state.put(namespaced_key("elasticquota", "ns", "junk"), b'{"type":"elasticquota.seen.v1","min":"x"}')
    world.complete()
    await world.start()
    await eventually(lambda: world.groups.runtime("good") == 2000, "the good group")
    message = await eventually(lambda: next(iter(world.events), None), "an event")
    assert message.subject == "berth.v1.evt.object.refused.elasticquotas.ns.bad"
    refused = decode(message.data, ObjectRefused)
    assert any("leads back" in problem.message for problem in refused.problems)
    assert world.groups.now[quota_key("", "bad")].runtime == {"cpu": 0}
    facts = (await world.statuses())["one"].facts
    assert (facts["problems"], facts["unreadable messages"], facts["groups"]) == (1, 1, 4)


async def test_a_group_too_large_for_the_bus_stops_no_other(world):
    world.node("n")
    world.quota("top", labels={names.LABEL_QUOTA_IS_PARENT: "true"})
    for child in range(20):
        amounts = {f"{child}-{number}".ljust(300, "x"): 1000 for number in range(256)}
        labels = {names.LABEL_QUOTA_PARENT: "top", names.LABEL_QUOTA_LENDS: "false"}
        world.quota(f"child-{child}", labels=labels, min=amounts, max=amounts)
    world.quota("plain")
    world.complete()
    _, task = await world.start()
    await eventually(lambda: world.groups.runtime("plain") == 0 or task.done(), "published")
    world.pod("p", quota="plain")
    await eventually(lambda: world.groups.runtime("plain") == 1000 or task.done(), "it goes on")
    await eventually(lambda: "plain" in {patch.name for patch in world.commands} or task.done(), "and writes back")
    assert not task.done()
    assert quota_key("", "top") not in world.groups.now


async def test_overuse_is_announced(world):
    world.node("n")
    world.quota("a", cpu=500)
    world.pod("p", quota="a", cpu=800, node="n")
    world.complete()
    await world.start()
    await eventually(lambda: any("exceeded" in event.subject for event in world.events), "an event")


async def test_a_standby_takes_over_and_says_the_same_once_more(world):
    world.node("n")
    world.quota("a")
    world.pod("p", quota="a")
    world.complete()
    first = await world.start("first")
    await eventually(lambda: world.groups.runtime("a") == 1000, "published")
    second = await world.start("second")
    await eventually(lambda: second[0].health.readiness().get("state", (False,))[0], "the standby has its view")
    status = await world.statuses()
    assert (status["first"].active, status["second"].active) == (True, False)
    assert status["second"].ready
    before = dict(world.groups.now)
    await world.crash(first)
    await eventually(lambda: _renewed(before, world.groups.now), "under revisions that are new")
    assert all(limits(world.groups.now[key]) == limits(group) for key, group in before.items())
    world.pod("q", quota="a")
    await eventually(lambda: world.groups.runtime("a") == 2000, "the standby goes on")
    assert (await world.statuses())["second"].active


async def test_a_restart_says_every_group_once_under_a_higher_revision(world):
    world.node("n")
    world.quota("a")
    world.pod("p", quota="a")
    world.complete()
    replica = await world.start("first")
    await eventually(lambda: world.groups.runtime("a") == 1000, "published")
    await eventually(lambda: len(world.groups.now) == 3, "all groups")
    await world.stop(replica)
    before, written = dict(world.groups.now), len(world.groups.history)
    await world.start("second")
    await eventually(lambda: _renewed(before, world.groups.now), "under revisions that are new")
    world.pod("q", quota="a")
    await eventually(lambda: world.groups.runtime("a") == 2000, "it goes on")
    new = [key for key, _ in world.groups.history[written:]]
    assert (sorted(new[:-1]), new[-1]) == (sorted(before), quota_key("", "a"))


def _renewed(before, now):
    return all(now[key].revision > group.revision for key, group in before.items())


def limits(group):
    return msgspec.structs.replace(group, revision=0)


async def test_the_bus_may_go_away_and_come_back(world):
    world.node("n")
    world.quota("a")
    world.complete()
    await world.start()
    await eventually(lambda: world.groups.runtime("a") == 0, "published")
    world.server.restart()
    world.pod("p", quota="a", cpu=700)
    await eventually(lambda: world.groups.runtime("a") == 700, "published again")


async def test_the_process_starts_works_and_stops_when_told(world, tmp_path):
    world.node("n")
    world.quota("a")
    world.pod("p", quota="a", cpu=300)
    world.complete()
    environment = os.environ | {
        "BERTH_NATS_URL": world.server.url,
        "BERTH_PORT_FILE": str(tmp_path / "port"),
        "BERTH_EXIT_WITH_PARENT": "true",
    }
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "berth.quota_manager", env=environment)
    try:
        await eventually(lambda: world.groups.runtime("a") == 300, "published")
        assert int((tmp_path / "port").read_text()) > 0
        process.terminate()
        assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_revisions_go_on_above_those_of_the_ledger_though_quota_was_lost_and_the_clock_went_back(world):
    used = int((time.time() + 3600) * 1000)
    account = quota_account("", "a")
    stamp = encode(AccountStamp(plan="p", revision=used))
    assert isinstance(await world.bus.ledger().commit([Write(account_key(1, account), stamp, 0)]), Committed)
    world.node("n")
    world.quota("a")
    world.complete()
    await world.start()
    await eventually(lambda: world.groups.runtime("a") is not None, "published")
    assert world.groups.now[quota_key("", "a")].revision > used
