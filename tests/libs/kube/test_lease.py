"""The Lease against an API server in memory that loses answers, with clocks that tests move."""

import asyncio
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts.names import ANNOTATION_EPOCH, ANNOTATION_PLAN
from berth.kube import Answer, KubeLease, LeaseRecord, Outcome, Patch
from berth.kube.answer import answer_of
from berth.kube.lease_record import read_lease


class FakeApi:
    """Just the Lease of an API server. `fate` says what becomes of the next change: ok, before, after (its effect)."""

    def __init__(self, fate: Callable[[], str] = lambda: "ok") -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 100
        self.fate = fate
        self.down = False
        self.page = False
        self.changes: list[tuple[str, str]] = []
        self.looks = 0

    async def get(self, *_: Any) -> Answer:
        self.looks += 1
        await asyncio.sleep(0)
        if self.down:
            return Answer(0, b"", "Timeout")
        if self.page:
            return answer_of(404, b"404 page not found", "Not Found", None)
        return Answer(404) if self.lease is None else Answer(200, json.dumps(self.lease).encode())

    async def create(self, _resource: Any, _namespace: str, body: Any, **_: Any) -> Answer:
        return await self._with_fate(lambda: self._create(body))

    async def patch(self, _resource: Any, _ns: str, _name: str, body: Any, *, content_type: Patch, **_: Any) -> Answer:
        assert content_type is Patch.MERGE
        return await self._with_fate(lambda: self._merge(body))

    async def _with_fate(self, effect: Callable[[], Answer]) -> Answer:
        await asyncio.sleep(0)
        if self.down:
            return Answer(0, b"", "Timeout")
        if self.page:
            return answer_of(404, b"404 page not found", "Not Found", None)
        fate = self.fate()
        if fate == "before":
            return Answer(0, b"", "ServerDisconnectedError")
        if fate == "throttled":
            return Answer(429)
        answer = effect()
        return Answer(0, b"", "Timeout") if fate == "after" else answer

    def _create(self, body: dict[str, Any]) -> Answer:
        if self.lease is not None:
            return Answer(409, b"", "AlreadyExists")
        self.lease = {**body, "metadata": {**body["metadata"], "uid": f"u{self.version}"}}
        return self._stored()

    def _merge(self, body: dict[str, Any]) -> Answer:
        if self.lease is None:
            return Answer(404, b"", "NotFound")
        metadata = self.lease["metadata"]
        guards = {k: body["metadata"][k] for k in ("uid", "resourceVersion")}
        assert all(guards.values())
        if any(metadata[k] != v for k, v in guards.items()):
            return Answer(409, b"", "Conflict")
        self.lease["spec"] |= body["spec"]
        kept = metadata.setdefault("annotations", {})
        for key, value in body["metadata"].get("annotations", {}).items():
            kept.pop(key, None) if value is None else kept.__setitem__(key, value)
        return self._stored()

    def _stored(self) -> Answer:
        assert self.lease is not None
        self.version += 1
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        plan = self.lease["metadata"].get("annotations", {}).get(ANNOTATION_PLAN, "")
        self.changes.append((self.lease["spec"]["holderIdentity"], plan))
        return Answer(200, json.dumps(self.lease).encode())


def lease(api: FakeApi, holder: str, clock: Any, **rest: Any) -> KubeLease:
    return KubeLease(api, "berth", "cluster-writer", holder, clock=clock, rng=random.Random(1), **rest)  # type: ignore[arg-type]


def seen(one: KubeLease) -> LeaseRecord:
    assert one.record is not None
    return one.record


async def test_the_first_one_creates_it_and_remembers_nothing(clock: Any) -> None:
    told: list[bool] = []
    one = lease(FakeApi(), "one", clock, on_change=told.append)
    assert not one.active
    assert await one.try_acquire()
    assert one.active
    assert seen(one).mark == (None, "")
    assert told == [True]


async def test_what_it_remembers_survives_a_change_of_holder(clock: Any) -> None:
    api = FakeApi()
    one, two = lease(api, "one", clock), lease(api, "two", clock)
    await one.try_acquire()
    assert await one.remember(epoch=3, plan="p1", seen=seen(one)) is Outcome.DONE
    assert api.lease is not None
    assert api.lease["metadata"]["annotations"] == {ANNOTATION_EPOCH: "3", ANNOTATION_PLAN: "p1"}
    await one.release()
    assert not one.held
    assert await two.try_acquire()
    assert seen(two).mark == (3, "p1")
    assert await two.remember(epoch=4, plan="", seen=seen(two)) is Outcome.DONE
    assert api.lease["metadata"]["annotations"] == {ANNOTATION_EPOCH: "4"}
    assert api.lease["spec"]["leaseTransitions"] == 1


async def test_a_stand_by_waits_for_the_whole_duration_on_its_own_clock(clock: Any) -> None:
    api = FakeApi()
    one, two = lease(api, "one", clock), lease(api, "two", clock)
    await one.try_acquire()
    clock.time_s += 1000  # nobody looked meanwhile: the first look begins the wait
    assert not await two.try_acquire()
    clock.time_s += 5.9
    assert not await two.try_acquire()
    await one.renew()
    clock.time_s += 5.9
    assert not await two.try_acquire()
    clock.time_s += 5.9
    assert not await two.try_acquire()
    clock.time_s += 0.2
    assert await two.try_acquire()
    assert await one.renew() is Outcome.LOST
    assert not one.held


async def test_a_foreign_clock_does_not_matter(clock: Any) -> None:
    api = FakeApi()
    one, two = lease(api, "one", clock), lease(api, "two", clock)
    await one.try_acquire()
    assert api.lease is not None
    api.lease["spec"] |= {"renewTime": "1970-01-01T00:00:00.000000Z", "leaseDurationSeconds": 10**9}
    assert not await two.try_acquire()
    clock.time_s += 59
    assert not await two.try_acquire()
    clock.time_s += 1
    assert await two.try_acquire()


async def test_a_holder_without_confirmation_is_not_active_but_does_not_give_up(clock: Any) -> None:
    api = FakeApi()
    one = lease(api, "one", clock)
    await one.try_acquire()
    api.down = True
    clock.time_s += 5.9
    assert await one.renew() is Outcome.UNKNOWN
    assert one.active
    clock.time_s += 0.2
    assert not one.active
    assert one.held
    api.down = False
    assert await one.renew() is Outcome.DONE
    assert one.active


async def test_a_paused_holder_cannot_write_beside_its_successor(clock: Any) -> None:
    api = FakeApi()
    one, two = lease(api, "one", clock), lease(api, "two", clock)
    await one.try_acquire()
    before = seen(one)
    await two.try_acquire()
    clock.time_s += 6
    await two.try_acquire()
    assert await one.remember(epoch=1, plan="p", seen=before) is Outcome.LOST
    assert ("one", "p") not in api.changes


async def test_a_lost_answer_is_settled_by_looking(clock: Any) -> None:
    fates = ["ok", "after", "before", "before", "ok"]
    api = FakeApi(lambda: fates.pop(0) if fates else "ok")
    one = lease(api, "one", clock)
    await one.try_acquire()
    assert await one.remember(epoch=1, plan="a", seen=seen(one)) is Outcome.DONE
    assert await one.remember(epoch=1, plan="b", seen=seen(one)) is Outcome.DONE
    assert [plan for _, plan in api.changes] == ["", "a", "b"]


async def test_an_unknown_outcome_is_told_and_may_be_asked_again(clock: Any) -> None:
    api = FakeApi()
    one = lease(api, "one", clock)
    await one.try_acquire()
    before = seen(one)
    api.down = True
    assert await one.remember(epoch=1, plan="a", seen=before) is Outcome.UNKNOWN
    api.down = False
    assert await one.remember(epoch=1, plan="a", seen=before) is Outcome.DONE


async def test_a_write_of_ours_that_lands_late_is_noticed_before_the_next(clock: Any) -> None:
    api = FakeApi()
    one = lease(api, "one", clock)
    await one.try_acquire()
    before = seen(one)
    assert api.lease is not None
    api.lease["metadata"]["annotations"] = {ANNOTATION_EPOCH: "1", ANNOTATION_PLAN: "late"}
    api._stored()
    assert await one.remember(epoch=1, plan="next", seen=before) is Outcome.CHANGED
    assert seen(one).mark == (1, "late")
    assert await one.remember(epoch=1, plan="next", seen=before) is Outcome.CHANGED
    assert await one.remember(epoch=1, plan="next", seen=seen(one)) is Outcome.DONE


async def test_throttling_is_not_a_loss(clock: Any) -> None:
    api = FakeApi()
    one = lease(api, "one", clock)
    await one.try_acquire()
    api.fate = lambda: "throttled"
    looks = api.looks
    assert await one.renew() is Outcome.UNKNOWN
    assert one.held
    assert api.looks == looks


async def test_a_lease_that_was_deleted_is_lost_and_made_anew(clock: Any) -> None:
    api = FakeApi()
    one = lease(api, "one", clock)
    await one.try_acquire()
    await one.remember(epoch=5, plan="p", seen=seen(one))
    api.lease = None
    assert await one.renew() is Outcome.LOST
    assert await one.try_acquire()
    assert seen(one).mark == (None, "")


async def test_a_page_of_a_proxy_is_no_loss(clock: Any) -> None:
    api = FakeApi()
    one = lease(api, "one", clock)
    assert await one.try_acquire()
    api.page = True
    assert await one.renew() is Outcome.UNKNOWN
    assert one.held
    api.page = False
    assert await one.renew() is Outcome.DONE


async def test_running_keeps_it_and_another_takes_over_when_it_stops(clock: Any) -> None:
    api = FakeApi()
    one, two = lease(api, "one", clock), lease(api, "two", clock)
    first = asyncio.create_task(one.run())
    await _until(lambda: one.active)
    second = asyncio.create_task(two.run())
    await _until(lambda: len(api.changes) > 10)
    assert {holder for holder, _ in api.changes} == {"one"}
    first.cancel()
    stopped_at = clock.time_s
    await _until(lambda: two.active)
    assert clock.time_s - stopped_at >= 4.0
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)


async def test_a_stand_by_looks_the_moment_the_lease_would_be_free(clock: Any) -> None:
    api = FakeApi()
    assert await lease(api, "dead", clock).try_acquire()
    began = clock.time_s
    won_after: list[float] = []
    stand_by = lease(api, "two", clock, on_change=lambda held: won_after.append(clock.time_s - began))
    running = asyncio.create_task(stand_by.run())
    await _until(lambda: won_after)
    assert 6.0 <= won_after[0] <= 6.1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"[]", None),
        (b"", None),
        (b'{"spec":{"holderIdentity":3}}', None),
        (b"{}", LeaseRecord("", None, "", "", "", 0, 0)),
        (
            b'{"metadata":{"resourceVersion":"7","annotations":{"scheduling.berth.sh/epoch":"-1"}},'
            b'"spec":{"holderIdentity":"h","leaseDurationSeconds":-4,"leaseTransitions":2}}',
            LeaseRecord("h", None, "", "7", "", 2, 0),
        ),
    ],
)
def test_reading_a_lease(body: bytes, expected: LeaseRecord | None) -> None:
    assert read_lease(body) == expected


@pytest.mark.parametrize("options", [{"holder": ""}, {"renew_s": 6.0}, {"renew_s": 0.0}])
def test_arguments_that_cannot_work(options: dict[str, Any], clock: Any) -> None:
    arguments = {"holder": "one", **options}
    with pytest.raises(ValueError, match=r"holder|renew_s"):
        lease(FakeApi(), arguments.pop("holder"), clock, **arguments)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_two_holders_ever_write_one_after_the_other_without_a_take_over(seed: int) -> None:
    """Two processes with clocks of their own, lost answers, pauses: who writes had taken the Lease before.

    And a plan that its writer believes written is in the Lease from then on until a plan of a later holder or its own
    next one replaces it.
    """
    asyncio.run(_two_processes(seed))


async def _two_processes(seed: int) -> None:
    rng = random.Random(seed)
    api = FakeApi(lambda: rng.choice(["ok", "ok", "ok", "before", "after"]))
    clocks = [_Ticking(rng.uniform(0, 1e6)) for _ in range(2)]
    both = [lease(api, f"h{i}", clocks[i]) for i in range(2)]
    believed: list[str] = []

    async def step(i: int) -> None:
        one, clock = both[i], clocks[i]
        clock.time_s += rng.choice([0.1, 2.0, 7.0])
        if not one.held:
            await one.try_acquire()
        elif rng.random() < 0.6 and one.record is not None:
            plan = f"{i}-{rng.getrandbits(40)}"
            if await one.remember(epoch=1, plan=plan, seen=one.record) is Outcome.DONE:
                assert any(change == (f"h{i}", plan) for change in api.changes)
                believed.append(plan)
        else:
            await one.renew()

    for _ in range(40):
        await asyncio.gather(*(step(i) for i in range(2) if rng.random() < 0.8))
    plans = [plan for k, (_, plan) in enumerate(api.changes) if plan and (k == 0 or api.changes[k - 1][1] != plan)]
    assert [plan for plan in plans if plan in set(believed)] == believed
    for (former, remembered), (holder, plan) in itertools.pairwise(api.changes):
        if former != holder:
            assert plan == remembered  # a take-over changes the holder and nothing else


class _Ticking:
    def __init__(self, time_s: float) -> None:
        self.time_s = time_s

    def now(self) -> float:
        return self.time_s

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.time_s += seconds


async def _until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0)
