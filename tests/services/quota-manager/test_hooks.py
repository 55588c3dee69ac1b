"""Hooks in the rounds of quota-manager: what is published of them, charged, shown, and when they are asked again."""

from __future__ import annotations

import json
from typing import Any

from tests.services.worlds.quota.feed import Feed
from tests.services.worlds.quota.licences import SEAT, Licences

from berth.bus.port import Entry
from berth.contracts import names, state
from berth.contracts.codec import encode
from berth.contracts.quota import PodCharge, QuotaGroup
from berth.contracts.quota_question import QuotaQuestion
from berth.contracts.subjects import charge_key, namespaced_key, pod_key, quota_key
from berth.quota_manager.core.engine import Rules
from berth.quota_manager.core.hooks import classes
from berth.quota_manager.core.hooks.answers import Unusable
from berth.quota_manager.core.hooks.asking import Hooks, NamedHook, Returned
from berth.quota_manager.core.hooks.rounds import rules_with
from berth.quota_manager.core.standing import standing
from berth.quota_manager.hooks.loading import named_hook
from berth.rules.quota_hooks.seen import class_id, hooked_pod
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.runtime import Command, Moment

LICENSED = {"licence": "4711"}


class Hooked(Feed):
    """Writes of cluster-watcher, as a reconciler with a hook sees them, and QUOTA as it then is."""

    def __init__(self, *hooks: object, fails_open: bool = False) -> None:
        self.calls: list[tuple[str, str]] = []
        self.failures: list[str] = []
        self.broken = False
        named = [named_hook(f"h{at}", hook) for at, hook in enumerate(hooks or (Licences(),))]
        self.takes_s = self.spent_s = 0.0
        made = Hooks(named, self.call, self.failed, fails_open=fails_open, spent_s=lambda: self.spent_s)
        super().__init__(rules=rules_with(Rules(), made), hooks=made)
        self.there: dict[str, Any] = {}
        self.commands: list[Command] = []
        self.now = 0.0

    def call(self, hook: NamedHook, function: str, arguments: tuple[Any, ...]) -> Returned | Unusable:
        self.spent_s += self.takes_s
        if function != "shows":
            self.calls.append((function, arguments[0].labels.get("app", "")))
        if self.broken:
            return Unusable("broken")
        return Returned(hook.functions[function](*arguments))

    def failed(self, hook: NamedHook, function: str, problem: Unusable) -> None:
        if function != "shows":
            self.failures.append(f"{hook.name}.{function}: {problem.why}")

    def solver(self, name: str, *, quota: str = "team", node: str = "", seats: str = "1", **notes: str) -> state.Pod:
        labels = {names.LABEL_QUOTA_NAME: quota, "app": "solver", "seats": seats}
        template = state.PodTemplate(requests={"cpu": 1000}, labels=labels, annotations=notes)
        pod = state.Pod(namespace="ns", name=name, uid=name, version=1, template=template, node=node)
        self.put(pod_key("ns", name), pod)
        return pod

    def team(self, name: str = "team", *, seats: int = 3, labels: dict[str, str] | None = None) -> None:
        quota = state.ElasticQuota(
            namespace="ns",
            name=name,
            uid=f"uid-{name}",
            version=1,
            labels=LICENSED if labels is None else labels,
            max={"cpu": 8000, SEAT: seats},
        )
        self.put(namespaced_key("elasticquota", "ns", name), quota)

    def round(self, at: float | None = None) -> set[str]:
        """One round, and what it wrote is there."""
        self.now = self.now + 1 if at is None else at
        outcome = self.reconciler.reconcile("everything", Moment(self.now, self.now))
        for write in outcome.writes:
            self.reconciler.published.wrote(write.key, write.message)
            self.shows(write.key, write.message)
        self.commands += outcome.commands
        return {write.key for write in outcome.writes}

    def shows(self, key: str, message: Any) -> None:
        if message is None:
            self.there.pop(key, None)
        else:
            self.there[key] = message
        value = b"" if message is None else encode(message)
        self.reconciler.published.apply(Entry(key, value, message is None, 1, 0, False, None))

    def said(self, pod: state.Pod) -> PodCharge | None:
        found: PodCharge | None = self.there.get(charge_key(class_id(hooked_pod(pod.namespace, pod.template))))
        return found

    def group(self, name: str) -> QuotaGroup:
        found: QuotaGroup = self.there[quota_key("", name)]
        return found


def ready(*hooks: object, **options: Any) -> Hooked:
    feed = Hooked(*hooks, **options)
    feed.node("n", cpu=8000)
    feed.team()
    feed.complete()
    return feed


def test_a_class_is_asked_about_once_and_what_is_said_of_it_published() -> None:
    feed = ready()
    pods = [feed.solver(f"p{at}") for at in range(5)]
    feed.pod("plain", quota="team")
    feed.round()
    assert sorted(feed.calls) == [("charges", ""), ("charges", "solver"), ("refuses", ""), ("refuses", "solver")]
    said = feed.said(pods[0])
    assert said is not None
    assert (said.group, said.surcharge, said.refusals) == ("team", {SEAT: 1}, [])
    assert feed.group(DEFAULT_GROUP).rules.hooks == ["h0"]
    feed.solver("p9")
    feed.node("m", cpu=1000)
    assert not any(key.startswith("charge.") for key in feed.round())
    assert len(feed.calls) == 4


def test_slow_hooks_are_asked_round_by_round() -> None:
    feed = ready()
    feed.takes_s = classes.ASKING_S / 2
    pods = [feed.solver(f"p{at}", seats=str(at)) for at in range(1, 8)]
    news = feed.news
    feed.round()
    assert [function for function, _ in feed.calls] == ["charges"] * 3 + ["refuses"] * 3
    assert feed.news > news, "there is more to ask"
    for _ in range(4):
        feed.round()
    assert all(feed.said(pod) is not None for pod in pods)


def test_what_waits_is_asked_for_and_what_is_bound_used_as_its_bind_says() -> None:
    feed = ready()
    feed.solver("p")
    feed.solver("q", node="n", **{names.ANNOTATION_QUOTA: "/team", names.ANNOTATION_QUOTA_SURCHARGE: f'{{"{SEAT}":2}}'})
    feed.solver("bound-by-others", node="n")
    feed.round()
    group = feed.group("team")
    assert group.request == {"cpu": 3000, SEAT: 3}
    assert feed.reconciler.engine.forest.groups["team"].used == {"cpu": 2000, SEAT: 2}


def test_only_a_max_limits_what_no_node_has() -> None:
    feed = ready()
    feed.solver("p", seats="9")
    feed.round()
    assert feed.group("team").runtime == {"cpu": 1000, SEAT: 3}
    assert feed.group("team").problems == []
    feed.team(seats=5)
    feed.round()
    assert feed.group("team").runtime == {"cpu": 1000, SEAT: 5}
    (shown,) = standing(feed.reconciler.engine, feed.reconciler.loans.of, {}, shown_of=lambda _: {}, name="team").groups
    assert shown.runtime == {"cpu": 1000, SEAT: 5}
    assert shown.short == [SEAT]


def test_who_is_refused_is_asked_about_again_when_its_group_is_another() -> None:
    feed = ready()
    feed.team(labels={})
    pod = feed.solver("p")
    feed.round()
    said = feed.said(pod)
    assert said is not None
    assert [(each.hook, each.message) for each in said.refusals] == [("h0", "group team has no licence")]
    feed.team()
    feed.round()
    said = feed.said(pod)
    assert said is not None
    assert said.refusals == []


def test_the_group_that_would_pay_is_told_and_may_change() -> None:
    feed = ready()
    pod = feed.solver("p", quota="late")
    feed.round()
    said = feed.said(pod)
    assert said is not None
    assert (said.group, len(said.refusals)) == (DEFAULT_GROUP, 1)
    feed.team("late")
    feed.round()
    said = feed.said(pod)
    assert said is not None
    assert (said.group, said.refusals) == ("late", [])
    feed.delete(namespaced_key("elasticquota", "ns", "late"))
    feed.round()
    said = feed.said(pod)
    assert said is not None
    assert said.group == DEFAULT_GROUP


def test_a_hook_that_fails_refuses_or_says_nothing_as_is_set_and_is_asked_again_later() -> None:
    for fails_open in (False, True):
        feed = ready(fails_open=fails_open)
        feed.broken = True
        pod = feed.solver("p")
        feed.round(1.0)
        said = feed.said(pod)
        assert said is not None
        messages = ["charges failed: broken", "refuses failed: broken"]
        assert [each.message for each in said.refusals] == ([] if fails_open else messages)
        assert said.surcharge == {}
        assert feed.failures == ["h0.charges: broken", "h0.refuses: broken"]
        feed.broken = False
        feed.round(1.0 + classes.RETRY_S - 0.1)
        assert len(feed.failures) == 2
        feed.round(1.0 + classes.RETRY_S)
        said = feed.said(pod)
        assert said is not None
        assert (said.surcharge, said.refusals) == ({SEAT: 1}, [])
        assert feed.reconciler.engine.forest.groups["team"].request == {"cpu": 1000, SEAT: 1}


def test_what_hooks_show_stands_in_the_state_of_the_quota() -> None:
    feed = ready()
    feed.solver("q", node="n", **{names.ANNOTATION_QUOTA: "/team", names.ANNOTATION_QUOTA_SURCHARGE: f'{{"{SEAT}":2}}'})
    feed.round()
    (patch,) = [each.message for each in feed.commands if getattr(each.message, "name", "") == "team"]
    assert json.loads(patch.annotations[names.ANNOTATION_QUOTA_STATE])["hooks"] == {"h0": {"seatsLeft": "1"}}
    (told,) = feed.reconciler.answer(QuotaQuestion(name="team")).groups
    assert told.shown == {"h0": {"seatsLeft": "1"}}
    assert patch.status["used"] == {"cpu": "1", SEAT: "2"}


def test_many_classes_are_asked_about_in_several_rounds() -> None:
    feed = ready()
    pods = [feed.solver(f"p{at}", seats=str(at)) for at in range(classes.ASKED_AT_ONCE + 10)]
    news = feed.news
    feed.round()
    assert sum(feed.said(pod) is not None for pod in pods) == classes.ASKED_AT_ONCE
    assert feed.news > news, "there is another round"
    feed.round()
    assert all(feed.said(pod) is not None for pod in pods)


def test_what_is_said_stays_a_while_and_goes_behind_others(monkeypatch: Any) -> None:
    monkeypatch.setattr(classes, "IDLE_MAX", 2)
    feed = ready()
    pods = [feed.solver(f"p{at}", seats=str(at)) for at in range(4)]
    feed.round()
    for at in range(4):
        feed.solver(f"p{at}", seats=str(at), node="n")
    feed.round()
    assert [feed.said(pod) is not None for pod in pods] == [False, False, True, True]
    calls = len(feed.calls)
    feed.solver("again", seats="3")
    feed.round()
    assert feed.calls[calls:] == []
    assert feed.reconciler.engine.forest.groups["team"].request[SEAT] == 3


def test_a_restart_deletes_what_nobody_asks_for_and_keeps_the_rest() -> None:
    feed = ready()
    pod = feed.solver("p")
    feed.round()
    other = ready()
    for key, message in feed.there.items():
        other.shows(key, message)
    stale = charge_key("0" * 32)
    other.shows(stale, PodCharge(id="0" * 32))
    other.solver("p")
    assert {key for key in other.round() if key.startswith("charge.")} == {stale}
    assert other.said(pod) == feed.said(pod)
    assert stale not in other.there


def test_without_hooks_nothing_of_them_is_left() -> None:
    feed = ready()
    feed.solver("p")
    feed.round()
    plain = Feed()
    plain.complete()
    for key, message in feed.there.items():
        plain.reconciler.published.apply(Entry(key, encode(message), False, 1, 0, False, None))
    outcome = plain.reconciler.reconcile("everything", Moment(1.0, 1.0))
    written = {write.key: write.message for write in outcome.writes}
    assert [message for key, message in written.items() if key.startswith("charge.")] == [None]
    default = written[quota_key("", DEFAULT_GROUP)]
    assert isinstance(default, QuotaGroup)
    assert default.rules.hooks == []


def test_another_message_in_the_bucket_and_a_garbled_one_are_written_over() -> None:
    feed = ready()
    pod = feed.solver("p")
    feed.round()
    said = feed.said(pod)
    assert said is not None
    key = charge_key(said.id)
    for value in (encode(PodCharge(id=said.id, group="team")), b"{"):
        feed.reconciler.published.apply(Entry(key, value, False, 1, 0, False, None))
        assert key in feed.round()
        assert feed.said(pod) == said


def test_who_fails_open_says_nothing_before_a_hook_that_is_slow_has_answered() -> None:
    """Placed meanwhile its pods would be charged nothing for good."""

    class Slow(Hooked):
        busy = True

        def call(self, hook: NamedHook, function: str, arguments: tuple[Any, ...]) -> Returned | Unusable:
            if self.busy and arguments[0].labels.get("app") == "solver":
                return Unusable("not answered yet", is_busy=True)
            return super().call(hook, function, arguments)

    for fails_open in (False, True):
        feed = Slow(fails_open=fails_open)
        feed.node("n", cpu=8000)
        feed.team()
        feed.complete()
        slow, other = feed.solver("slow"), feed.pod("other", quota="team")
        feed.round(1.0)
        assert feed.said(slow) is None
        assert sum(key.startswith("charge.") for key in feed.there) == 1, f"{other} is not kept waiting"
        assert feed.failures == []
        feed.busy = False
        feed.round(1.0 + classes.AWAITED_S)
        said = feed.said(slow)
        assert said is not None
        assert (said.surcharge, said.refusals) == ({SEAT: 1}, [])
        feed.busy = True
        feed.team(seats=5)
        feed.round(3.0)
        assert feed.said(slow) == said, "what was said stays until there is more"
        feed.busy = False
        feed.team(labels={})
        feed.round(4.0)
        said = feed.said(slow)
        assert said is not None
        assert [each.message for each in said.refusals] == ["group team has no licence"]
