"""Asks the hooks, one after the other, and takes failures as it is set: as a refusal, or as nothing said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from berth.contracts.quota import HookRefusal
from berth.quota_manager.core.hooks.answers import Unusable, read_charges, read_refusal, read_shown
from berth.resources.amounts import Amounts, add_into, clamped
from berth.rules.quota_hooks.seen import HookedGroup, HookedPod

CHARGES: Final = "charges"
REFUSES: Final = "refuses"
SHOWS: Final = "shows"


class NamedHook(NamedTuple):
    """A hook as it was loaded. `functions` are those that it has, by name; `resources` what it may charge."""

    name: str
    functions: Mapping[str, Callable[..., object]]
    resources: frozenset[str] = frozenset()


class Returned(NamedTuple):
    """A call came to its end."""

    answer: object


Call: TypeAlias = Callable[[NamedHook, str, tuple[object, ...]], Returned | Unusable]
"""Calls a function of a hook; what it raises, or that it takes too long, is unusable."""
Failed: TypeAlias = Callable[[NamedHook, str, Unusable], None]


class Charge(NamedTuple):
    """What hooks say of a class of pods by themselves. `has_failed`: one had no usable answer; `is_awaited`: one has
    not answered yet, so that this is not all that is to be said."""

    surcharge: Amounts
    refusals: tuple[HookRefusal, ...] = ()
    has_failed: bool = False
    is_awaited: bool = False


class Hooks:
    """The hooks that are installed, in order of their names."""

    def __init__(
        self,
        hooks: Sequence[NamedHook],
        call: Call,
        failed: Failed,
        *,
        fails_open: bool = False,
        spent_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`spent_s` says how many seconds calls have taken so far."""
        self._hooks = sorted(hooks, key=lambda hook: hook.name)
        self._call = call
        self._failed = failed
        self._fails_open = fails_open
        self.spent_s = spent_s

    def __bool__(self) -> bool:
        return bool(self._hooks)

    @property
    def names(self) -> list[str]:
        """Who they are."""
        return [hook.name for hook in self._hooks]

    @property
    def resources(self) -> frozenset[str]:
        """What they may charge."""
        return frozenset[str]().union(*(hook.resources for hook in self._hooks))

    def charge(self, pod: HookedPod) -> Charge:
        """What such a pod costs beyond its request."""
        surcharge: Amounts = {}
        refusals: list[HookRefusal] = []
        failures: list[Unusable] = []
        for hook in self._hooks:
            answer = self._ask(hook, CHARGES, (pod,))
            read = answer if isinstance(answer, Unusable) else read_charges(answer.answer, hook.resources)
            if isinstance(read, Unusable):
                failures.append(read)
                refusals += self._fail(hook, CHARGES, read)
            else:
                add_into(surcharge, read)
        return Charge(clamped(surcharge), tuple(refusals), *_told(failures))

    def refusals(self, pod: HookedPod, group: HookedGroup) -> Charge:
        """Who refuses such a pod for this group."""
        refusals: list[HookRefusal] = []
        failures: list[Unusable] = []
        for hook in self._hooks:
            answer = self._ask(hook, REFUSES, (pod, group))
            read = answer if isinstance(answer, Unusable) else read_refusal(answer.answer)
            if isinstance(read, Unusable):
                failures.append(read)
                refusals += self._fail(hook, REFUSES, read)
            elif read:
                refusals.append(HookRefusal(hook=hook.name, message=read))
        return Charge({}, tuple(refusals), *_told(failures))

    def shown(self, group: HookedGroup, before: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
        """What the quota of a group shows, by hook. One that fails shows nothing, and one that has not answered yet
        what it has shown `before`."""
        shown: dict[str, Mapping[str, str]] = {}
        for hook in self._hooks:
            answer = self._ask(hook, SHOWS, (group,))
            read = answer if isinstance(answer, Unusable) else read_shown(answer.answer)
            if not isinstance(read, Unusable):
                if read:
                    shown[hook.name] = read
            elif not read.is_busy:
                self._failed(hook, SHOWS, read)
            elif hook.name in before:
                shown[hook.name] = before[hook.name]
        return shown

    def _ask(self, hook: NamedHook, function: str, arguments: tuple[object, ...]) -> Returned | Unusable:
        return self._call(hook, function, arguments) if function in hook.functions else Returned(None)

    def _fail(self, hook: NamedHook, function: str, problem: Unusable) -> list[HookRefusal]:
        if problem.is_busy:
            return []
        self._failed(hook, function, problem)
        if self._fails_open:
            return []
        return [HookRefusal(hook=hook.name, message=f"{function} failed: {problem.why}", has_failed=True)]


def _told(failures: Sequence[Unusable]) -> tuple[bool, bool]:
    """Whether a hook has failed, and whether one has not answered yet."""
    return not all(each.is_busy for each in failures), any(each.is_busy for each in failures)
