"""Gives the processes of each container the cookie of its group.

Cookies belong to processes: threads and children have those of whoever made them, a process that was put into a
container from outside has none. So every process is looked at, those of containers that had theirs less often.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.strategies.knobs import CORE_COOKIE
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.doers.doing import Done

LOOK_EVERY: Final = 5
"""A container whose processes had their cookie is looked at once in so many rounds."""
_LACKING: Final = frozenset({errno.EINVAL, errno.ENODEV, errno.ENOSYS})
"""What prctl fails with on a kernel without core scheduling, or a machine without siblings."""


class Cookies(Protocol):
    """The kernel's side (`prctl.CoreCookies`)."""

    def of(self, process: int) -> int | None:
        """The cookie of a process, 0 for none; None: it is gone."""

    def create(self, process: int) -> None:
        """Give it a new one."""

    def share(self, source: int, targets: Iterable[int]) -> None:
        """Give the cookie of one to others."""

    def clear(self, targets: Iterable[int]) -> None:
        """Take cookies away."""


class CookieDoer:
    """Knows which cookie a group has: that of the first of its processes that has one."""

    knobs = frozenset({CORE_COOKIE})

    def __init__(
        self,
        kernel: Cookies,
        processes: Callable[[str], Iterable[int]],
        everybody: Callable[[], Iterable[str]],
    ) -> None:
        """Take the kernel, what lists the processes of a control group, and what lists all groups of containers."""
        self._kernel = kernel
        self._processes = processes
        self._everybody = everybody
        self._held: dict[str, str] = {}
        self._rounds = 0

    def bring(self, wanted: Mapping[Ref, str]) -> Done:
        """Give groups of containers their cookies, and take away those that nobody wants."""
        self._rounds += 1
        try:
            self._kernel.of(os.getpid())
        except OSError as error:
            lacks = error.errno in _LACKING
            problem = () if lacks else (Problem(field=CORE_COOKIE, message=f"cannot be asked for: {error}"),)
            return Done(problems=problem, lacks="the kernel has no core scheduling" if lacks else "")
        names = {ref.group: name for ref, name in wanted.items()}
        changed, problems = self._cleared(names)
        by_name: dict[str, list[str]] = {}
        for group, name in names.items():
            by_name.setdefault(name, []).append(group)
        for name, groups in by_name.items():
            if any(self._held.get(group) != name for group in groups) or self._is_turn(name):
                try:
                    changed += self._given(groups)
                    self._held.update(dict.fromkeys(groups, name))
                except OSError as error:
                    problems.append(Problem(field=f"{CORE_COOKIE}[{name}]"[:300], message=f"cannot be given: {error}"))
        return Done(changed, tuple(problems))

    def _is_turn(self, name: str) -> bool:
        return (sum(name.encode()) + self._rounds) % LOOK_EVERY == 0

    def _cleared(self, names: Mapping[str, str]) -> tuple[int, list[Problem]]:
        """Those that had a cookie of ours, or are to have one of another group; without any wish, whoever has one."""
        gone = [group for group, name in self._held.items() if names.get(group) != name]
        changed, problems = 0, list[Problem]()
        for group in gone if names else {*gone, *self._everybody()}:
            try:
                holders = [each for each in self._others(group) if self._kernel.of(each)]
                if holders:
                    self._kernel.clear(holders)
                    changed += len(holders)
                self._held.pop(group, None)
            except OSError as error:
                problems.append(Problem(field=f"{CORE_COOKIE}[{group}]"[:300], message=f"cannot be taken: {error}"))
        return changed, problems

    def _given(self, groups: Iterable[str]) -> int:
        """One cookie for all processes of these containers. Returns how many got it."""
        cookies = {each: self._kernel.of(each) for group in groups for each in self._others(group)}
        living = {each: cookie for each, cookie in cookies.items() if cookie is not None}
        holder = next((each for each, cookie in living.items() if cookie), None)
        changed = 0
        if holder is None:
            if not living:
                return 0
            holder = next(iter(living))
            self._kernel.create(holder)
            changed = 1
            living[holder] = self._kernel.of(holder) or 0
        lacking = [each for each, cookie in living.items() if cookie != living[holder]]
        if lacking:
            self._kernel.share(holder, lacking)
        return changed + len(lacking)

    def _others(self, group: str) -> Iterable[int]:
        """The processes of a group but this one, which must keep none."""
        own = os.getpid()
        return (each for each in self._processes(group) if each != own)
