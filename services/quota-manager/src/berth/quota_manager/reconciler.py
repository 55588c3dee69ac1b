"""From figures to what is written, patched and announced. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from berth.contracts.base import Problem as WireProblem
from berth.contracts.command import PatchObject
from berth.contracts.event import ObjectRefused, QuotaChanged
from berth.contracts.kube import Requirement
from berth.contracts.quota import QuotaGroup
from berth.contracts.quota_question import QuotaAnswer, QuotaQuestion
from berth.contracts.subjects import command_subject, event_subject, named_key, namespaced_key, quota_key
from berth.quota_manager.core.alarms import Alarms
from berth.quota_manager.core.engine import Engine, Rules, Settled
from berth.quota_manager.core.forest import Group
from berth.quota_manager.core.group import Problem
from berth.quota_manager.core.hooks.asking import Hooks
from berth.quota_manager.core.hooks.published import is_charge
from berth.quota_manager.core.hooks.rounds import Hooking
from berth.quota_manager.core.limits import Frame, PublishedGroups, frame_message, with_figures
from berth.quota_manager.core.loans import Loans
from berth.quota_manager.core.made_quotas import Maker, unmade
from berth.quota_manager.core.overuse import Overuse, dated
from berth.quota_manager.core.quota_state import state_text
from berth.quota_manager.core.slipped import Admission, Demand, Slipped
from berth.quota_manager.core.standing import standing
from berth.quota_manager.core.writeback import Pace, Shown, figures_of, patch
from berth.quota_manager.settings import SERVICE
from berth.quota_manager.views import EVERYTHING, LedgerView, PublishedView, StateView
from berth.resources.amounts import format_amounts
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.runtime import Command, Event, Moment, Outcome, Write

WRITTEN_AT_ONCE: Final = 20
SPACED_MS: Final = 1000
PROBLEMS_MAX: Final = 20
"""Problems carried in one message; the first ones are enough to begin repairing."""


class Reconciler:
    """What should be written now. All of it follows from the engine, what was published and the time given."""

    def __init__(
        self,
        rules: Rules,
        *,
        on_news: Callable[[], None],
        interval_s: float = 2.0,
        retry_s: float = 30.0,
        grace_s: float = 5.0,
        writebacks_per_s: int = 100,
        started: float = 0.0,
        admission: Admission | None = None,
        home: str = "",
        maxes: Mapping[str, Mapping[str, Any]] | None = None,
        configuration: str = "",
        hooks: Hooks | None = None,
    ) -> None:
        """`started`: the monotonic time from which write-backs are allowed. `home`: where built-in groups are made,
        `maxes`: with which max, by group. `configuration`: what was read of it, for people."""
        self.engine = Engine(rules)
        self.published_groups = PublishedGroups()
        self.slipped = Slipped(admission or Admission(), self._demand_of)
        self.hooking = Hooking(hooks, self.engine, on_news)
        self.view = StateView(self.engine, self.slipped, self.hooking.classes, on_news=on_news)
        self.published = PublishedView(self.published_groups, self.hooking.published, self.reconsider, self.renew)
        self.ledger = LedgerView(self.published_groups, on_news)
        self.pace = Pace(interval_s)
        self.loans = Loans()
        self._overuse = Overuse()
        self._loans_due = started
        self._interval_s = interval_s
        self.maker = Maker(interval_s, retry_s, maxes or {})
        self._configuration = configuration
        self._home = home
        self._nodes_of: dict[str, list[Requirement]] = {}
        self._profile_alarms = Alarms(grace_s)
        self.alarms = Alarms(grace_s)
        self.problems: list[Problem] = []
        """What is wrong now; another list whenever it may have changed."""
        self.profile_problems: list[Problem] = []
        """What is wrong with profiles now."""
        self._said: list[Problem] | None = None
        self._merged_of: tuple[list[Problem], list[Problem]] = ([], [])
        self._by_object: tuple[list[Problem], dict[str, list[WireProblem]]] = ([], {})
        self._rules = rules
        self._retry_s = retry_s
        self._everything = True
        self._renews = False
        self._limits: set[str] = set()
        self._demand: set[str] = set()
        self._at_once: set[str] = set()
        self._written_ms: dict[str, int] = {}
        self._frames: dict[str, Frame] = {}
        self._trees: dict[str, str] = {}
        self._left: set[str] = set()
        """Keys of QUOTA under which there is no group any more."""
        self._writebacks_per_s = writebacks_per_s
        self._writebacks_allowed = 0.0
        self._last_writeback = started

    @property
    def is_ready(self) -> bool:
        """All that counts was seen."""
        return self.view.is_complete and self.ledger.is_at_end

    @property
    def missing(self) -> str:
        """What a complete view still lacks, for people."""
        return self.view.missing if self.ledger.is_at_end else "reading the revisions of the ledger"

    @property
    def facts(self) -> dict[str, str | int | float]:
        """For the question for the status."""
        return {
            "groups": len(self.engine.forest.groups),
            "trees": len(self.engine.forest.roots),
            "pods": len(self.engine.book),
            "nodes": self.engine.nodes,
            "profiles": len(self.view.profiles),
            "problems": len(self.problems) + len(self.profile_problems),
            "objects that admission would refuse": self.slipped.objects,
            "overused groups": self.alarms.over,
            "write-backs waiting": len(self.pace),
            **self.hooking.facts,
            "unreadable messages": self.unreadable,
            **({"scheduler configuration": self._configuration} if self._configuration else {}),
            "view": self.missing,
        }

    @property
    def unreadable(self) -> int:
        """Messages that could not be read since the start."""
        return self.view.invalid + self.ledger.unreadable

    def answer(self, question: QuotaQuestion) -> QuotaAnswer:
        """How the groups stand, for people."""
        problems = self._problems_by_object()
        return standing(
            self.engine,
            self.loans.of,
            problems,
            shown_of=self.hooking.last_shown,
            name=question.name,
            ready=self.is_ready,
        )

    def names(self) -> list[str]:
        """All groups hang together: they are looked at as one."""
        return [EVERYTHING]

    def due(self, at: Moment) -> list[str]:
        """Write-backs and alarms may have become due."""
        return [EVERYTHING]

    def begin(self) -> None:
        """Another replica was active meanwhile."""
        self.renew()

    def reconcile(self, name: str, at: Moment) -> Outcome:
        """Bring QUOTA and the ElasticQuotas in line with groups, pods and nodes."""
        self.settle(at.monotonic)
        # Write-backs come first: they decide for which groups a changed demand is published as well.
        commands = self._write_backs(at) + self._makings(at)
        present = self.published.keys
        charges = self.hooking.writes(present, everything=self._everything)
        writes = [Write(key, message) for key, message in self.writes(at.ms, present).items()]
        writes += [Write(key, message) for key, message in charges.items()]
        return Outcome(writes, commands, self.announcements(at))

    def _write_backs(self, at: Moment) -> list[Command]:
        """Commands for the objects whose time has come; a bucket of tokens keeps their sum in bounds."""
        elapsed_s = max(0.0, at.monotonic - self._last_writeback)
        self._last_writeback = at.monotonic
        most = float(self._writebacks_per_s)
        self._writebacks_allowed = min(self._writebacks_allowed + elapsed_s * most, most)
        patches = self.patches(at.monotonic, int(self._writebacks_allowed))
        self._writebacks_allowed -= len(patches)
        return [
            Command(
                command_subject("patch", "elasticquotas", patch.namespace, patch.name),
                patch,
                id=f"{SERVICE}.{patch.uid}.{at.ms}",
                may_drop=True,
            )
            for patch in patches
        ]

    def _makings(self, at: Moment) -> list[Command]:
        """Commands for the objects that Berth makes: root quotas of profiles, built-in groups."""
        home = self._home if self._home and named_key("namespace", self._home) in self.view.namespaces else ""
        requests = self.maker.requests(self.view.profiles.roots(), self.view.objects, home, at.monotonic, at.ms)
        return [
            Command(each.subject, each.command, id=f"{SERVICE}.{each.subject}.{at.ms}", may_drop=True)
            for each in requests
        ]

    def reconsider(self, key: str | None = None) -> None:
        """Compare everything with what was published again: a take-over, a lost bucket, a refused write (its key)."""
        if key is not None:
            self.published_groups.messages.pop(key, None)
            self.hooking.published.messages.pop(key, None)
        self._everything = True

    def renew(self) -> None:
        """Write every group under a new revision: a take-over, or a bucket that may have lost its newest messages.

        Limits that came back to what an older message says would pass for written, while LEDGER names the revision that
        was lost, and no solver may plan on less (R14).
        """
        self._renews = True
        self.reconsider()

    def settle(self, now: float) -> None:
        """Brings the figures in order. `now` is monotonic, in seconds."""
        self.hooking.before(now)
        settled = self.engine.settle()
        self.hooking.after(settled, self.view.seen_again, self.view.objects, now)
        self._follow(settled)
        self._at_once |= settled.shapes
        if settled.rebuilt:
            self.loans.reset()
        if self.view.profiles.changed:
            self.view.profiles.changed = False
            self._nodes_of = self.view.profiles.requirements()
            self._everything = True
        self._gather_problems(settled.figures)
        groups = self.engine.forest.groups
        self._limits |= settled.limits
        self.loans.touch(groups[name] for name in settled.limits & groups.keys())
        for name in sorted(self._moved_loans(now) & groups.keys()):
            self.pace.want(name, now)
        seen, self.view.seen_again = self.view.seen_again, set()
        for name in sorted((settled.limits | settled.figures | seen) & groups.keys()):
            self.pace.want(name, now)
            group = groups[name]
            if self._overuse.has_turned(group, uses_runtime=self._rules.uses_runtime):
                self._limits.add(name)
            if not group.is_detached:
                self.alarms.measure(name, group.used, group.runtime, now)
            else:
                self.alarms.measure(name, {}, {}, now)

    def _follow(self, settled: Settled) -> None:
        """Groups have come, gone or moved, or have another object."""
        groups = self.engine.forest.groups
        if settled.rebuilt:
            self._everything = True
            self._frames.clear()
            self._trees = {name: group.tree for name, group in groups.items()}
            self.pace.keep(groups)
            self.alarms.forget_all_but(groups)
            self._overuse.forget_all_but(groups)
            return
        for name in settled.shapes:
            group, tree = groups.get(name), self._trees.pop(name, None)
            self._frames.pop(name, None)
            if group is not None:
                self._trees[name] = group.tree
            if tree is not None and (group is None or group.tree != tree):
                self._left.add(quota_key(tree, name))
            if group is None:
                self.pace.forget(name)
                self._written_ms.pop(name, None)
                self.alarms.forget(name)
                self._overuse.forget(name)

    def _gather_problems(self, moved: Iterable[str]) -> None:
        """What is wrong with the trees, then what admission would have refused; what both say is said once."""
        sources = (self.engine.problems(), self.slipped.look(moved))
        if sources[0] is self._merged_of[0] and sources[1] is self._merged_of[1]:
            return
        self._merged_of = sources
        said = {(problem.object, problem.field) for problem in sources[0]}
        self.problems = sources[0] + [each for each in sources[1] if (each.object, each.field) not in said]
        self._demand |= self._told_otherwise()

    def _moved_loans(self, now: float) -> set[str]:
        """Groups with other loans than before: a look at whole levels, so at most once per interval."""
        if now < self._loans_due:
            return set()
        self._loans_due = now + self._interval_s
        return self.loans.settle()

    def _demand_of(self, name: str) -> Demand:
        group = self.engine.forest.groups.get(name)
        naming = self.engine.pods_naming(name)
        if group is None:
            return Demand(0, {}, naming)
        return Demand(self.engine.pods_of(name)[0], group.child_request, naming)

    def writes(self, now_ms: int, present: Iterable[str]) -> dict[str, QuotaGroup | None]:
        """What to put under which key of QUOTA (None: delete), in order. `present` are the keys that are there.

        Groups come behind those above them, and the default group behind all: who reads a QUOTA that begins anew, and
        sees the default group, sees every group.
        """
        if not (self._everything or self._limits or self._demand or self._left):
            return {}
        groups = self.engine.forest.groups
        everything, self._everything = self._everything, False
        renews, self._renews = self._renews, False
        names = groups.keys() if everything else (self._due_limits(now_ms) | self._demand) & groups.keys()
        problems = self._problems_by_object()
        revision = self.published_groups.next_revision(now_ms)
        changes: dict[str, QuotaGroup | None] = {}
        for group in sorted((groups[name] for name in names), key=_place):
            name = group.name
            frame = None if everything else self._frames.get(name)
            if frame is None:
                frame = self._frames[name] = self._frame(group)
            key, wrong = frame.key, problems.get(frame.object, [])
            wanted = with_figures(frame.message, group, wrong, uses_runtime=self._rules.uses_runtime)
            wanted = dated(wanted, group, self.published_groups.messages.get(key), now_ms)
            demand_too = everything or name in self._demand
            message = self.published_groups.successor(key, wanted, revision, demand_too=demand_too, renews=renews)
            if message is not None:
                changes[key] = message
                self._written_ms[name] = now_ms
        left, self._left = self._left, set()
        if everything:
            there = {key for key in present if not is_charge(key)}
            left |= there - {quota_key(group.tree, group.name) for group in groups.values()}
        for key in sorted(left - changes.keys()):
            changes[key] = None
            self.published_groups.saw(key, None)
        self._limits = (self._limits - names) & groups.keys()
        self._at_once.clear()
        self._demand.clear()
        return changes

    def _frame(self, group: Group) -> Frame:
        """What follows from objects is worked out when they change, and not for each pod that comes or goes."""
        message = frame_message(
            group,
            self.engine.map.served_by(group.name),
            nodes=self._nodes_of.get(group.tree),
            rules=self._rules.charging,
        )
        return Frame(quota_key(group.tree, group.name), group.spec.object, message)

    def _due_limits(self, now_ms: int) -> set[str]:
        """The groups whose limits are written now. Where many change because one asks for more or less, each is written
        at most once a second: a level of 10,000 would else be written for each of its pods."""
        waiting = self._limits - self._at_once
        if len(waiting) <= WRITTEN_AT_ONCE:
            return self._limits
        early = {name for name in waiting if 0 <= now_ms - self._written_ms.get(name, -SPACED_MS) < SPACED_MS}
        return self._limits - early

    def patches(self, now: float, most: int) -> list[PatchObject]:
        """Write-backs whose time has come, at most so many groups at once."""
        asked: list[PatchObject] = []
        for name in self.pace.take(now, most):
            group = self.engine.forest.groups.get(name)
            if group is None:
                continue
            self._demand.add(name)
            shown = self.view.shown.get(namespaced_key("elasticquota", group.spec.namespace, name))
            request = None if shown is None else self._patch(group, shown)
            if request is not None:
                asked.append(request)
                self.pace.again(name, now + self._retry_s)
        return asked

    def announcements(self, at: Moment) -> list[Event]:
        """Events that are due."""
        events = self._refusals(at) + self._profile_refusals(at)
        for group, excess in self.alarms.overuse(at.monotonic):
            known = self.engine.forest.groups.get(group)
            tree = known.tree if known is not None else ""
            runtime = known.runtime if known is not None else {}
            text = _overuse(excess)
            event = QuotaChanged(tree=tree, group=group, runtime=runtime, message=text)
            verb = "exceeded" if excess else "recovered"
            events.append(
                _event(event_subject("quota", "changed", verb, tree, group), event, f"quota.{verb}", text, at)
            )
        return events

    def _refusals(self, at: Moment) -> list[Event]:
        if self.problems is self._said:
            return []
        self._said = self.problems
        events: list[Event] = []
        for owner, listed in self.alarms.refusals(self.problems).items():
            events.append(_refusal("ElasticQuota", "elasticquotas", owner, listed, at))
        return events

    def _profile_refusals(self, at: Moment) -> list[Event]:
        profiles = self.view.profiles
        self.profile_problems = [*profiles.problems(), *unmade(profiles.roots(), self.view.objects)]
        news = self._profile_alarms.refusals(self.profile_problems)
        return [
            _refusal("ElasticQuotaProfile", "elasticquotaprofiles", owner, listed, at) for owner, listed in news.items()
        ]

    def _problems_by_object(self) -> dict[str, list[WireProblem]]:
        source, cached = self._by_object
        if source is self.problems:
            return cached
        by_object: dict[str, list[Problem]] = {}
        for problem in self.problems:
            by_object.setdefault(problem.object, []).append(problem)
        cached = {owner: _on_wire(listed) for owner, listed in by_object.items()}
        self._by_object = (self.problems, cached)
        return cached

    def _told_otherwise(self) -> set[str]:
        """The groups whose objects have other problems than before: their messages say so."""
        before, now = self._by_object[1], self._problems_by_object()
        return {owner.rpartition("/")[2] for owner in before.keys() | now.keys() if before.get(owner) != now.get(owner)}

    def _patch(self, group: Group, shown: Shown) -> PatchObject | None:
        of_hooks = self.hooking.shown(group, self.view.objects)
        told = state_text(group, self.loans.of(group.name), self.engine.pods_of(group.name)[1], of_hooks)
        return patch(shown, figures_of(group, group.runtime), group.used, told)


def _place(group: Group) -> tuple[bool, int, str]:
    """Its place among the groups that are written at once."""
    return group.name == DEFAULT_GROUP, group.depth, group.name


def _refusal(kind: str, plural: str, owner: str, listed: tuple[Problem, ...], at: Moment) -> Event:
    """The event that says what is wrong with one object."""
    namespace, _, name = owner.rpartition("/")
    event = ObjectRefused(kind=kind, namespace=namespace, name=name, problems=_on_wire(listed))
    subject = event_subject("object", "refused", plural, namespace, name)
    text = "; ".join(f"{problem.field}: {problem.message}" for problem in listed[:PROBLEMS_MAX])
    return _event(subject, event, "object.refused", text, at)


def _event(subject: str, message: QuotaChanged | ObjectRefused, kind: str, text: str, at: Moment) -> Event:
    return Event(
        subject,
        message,
        id=f"{SERVICE}.{subject}.{at.ms}",
        level="warning",
        text=kind,
        fields={"subject": subject, "text": text[:500]},
    )


def _overuse(excess: dict[str, int]) -> str:
    if not excess:
        return "within its runtime again"
    listed = ", ".join(f"{key} by {amount}" for key, amount in sorted(format_amounts(excess).items()))
    return f"uses more than its runtime: {listed}"


def _on_wire(problems: Iterable[Problem]) -> list[WireProblem]:
    return [WireProblem(field=problem.field, message=problem.message) for problem in problems][:PROBLEMS_MAX]
