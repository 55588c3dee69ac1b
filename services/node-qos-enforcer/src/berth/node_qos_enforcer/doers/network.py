"""Shares the node's device by tc, and tells by nft who is in which class.

The tree is ours when its root is an htb with our handle and our table is there. A root that somebody else has put there
is left alone. Changes replace single classes, so that the others' packets go on.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.laws.shaping import ROOT, TABLE
from berth.node_qos_enforcer.core.strategies.knobs import NET_CLASSES, NET_TREE
from berth.node_qos_enforcer.core.strategies.seam import Ref
from berth.node_qos_enforcer.doers.doing import Done

TIMEOUT_S: Final = 5.0
LOOK_EVERY: Final = 10
"""What was made is looked for once in so many rounds."""
_ROOT_QDISC: Final = re.compile(r"^qdisc (\S+) (\S+): (?:dev (\S+) )?root\b", re.MULTILINE)
_CLASS: Final = re.compile(r"^class htb (\S+) ", re.MULTILINE)
_CLASS_LINE: Final = re.compile(r"^class add dev \S+ parent \S+ classid (\S+) ", re.MULTILINE)
_KERNEL_HANDLE: Final = "0"
"""The handle of what the kernel has put there itself."""


class Output(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str = ""
    error: str = ""


Run = Callable[[Sequence[str], str], Output]


def run(command: Sequence[str], text: str) -> Output:
    """Run a command that reads `text`. One that is missing or hangs has failed."""
    if shutil.which(command[0]) is None:
        return Output(127, error=f"{command[0]} is not installed")
    try:
        done = subprocess.run(  # noqa: S603 - the commands are those of this module
            command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Output(126, error=str(error))
    return Output(done.returncode, done.stdout, done.stderr)


class NetworkDoer:
    """One node's device."""

    knobs = frozenset({NET_TREE, NET_CLASSES})

    def __init__(self, commands: Run = run) -> None:
        """Take what runs commands."""
        self._run = commands
        self._made: dict[str, str] = {}
        self._rounds = 0

    def bring(self, wanted: Mapping[Ref, str]) -> Done:
        """Make the tree and the table, or take them away."""
        self._rounds += 1
        now = {ref.knob: value for ref, value in wanted.items()}
        device = next((ref.group for ref in wanted), "")
        if not now:
            return self._take_away()
        if now == self._made and self._rounds % LOOK_EVERY:
            return Done()
        tree = self._tree(device, now.get(NET_TREE, ""))
        table = self._table(now.get(NET_CLASSES, "")) if isinstance(tree, int) else 0
        problem = tree if isinstance(tree, str) else table
        if isinstance(problem, str) or isinstance(tree, str):
            self._made = {}
            return Done(0, (Problem(field=f"network[{device}]", message=str(problem)[:300]),), str(problem)[:100])
        self._made = now
        return Done(tree + problem)

    def _tree(self, device: str, text: str) -> int | str:
        """How many lines were carried out, or why none could be."""
        shown = self._run(("tc", "qdisc", "show", "dev", device), "")
        if shown.code:
            return _reason(shown)
        root = next(((kind, handle) for kind, handle, _ in _ROOT_QDISC.findall(shown.out)), ("", _KERNEL_HANDLE))
        if root == ("htb", str(ROOT)):
            if self._made.get(NET_TREE) == text:
                return 0
            classes = self._run(("tc", "class", "show", "dev", device), "")
            stale = set(_CLASS.findall(classes.out)) - set(_CLASS_LINE.findall(text))
            lines = [f"class del dev {device} classid {each}" for each in sorted(stale)]
            lines += [line.replace("class add ", "class replace ", 1) for line in text.splitlines()[1:]]
        elif root[1] == _KERNEL_HANDLE:
            lines = text.splitlines()
        else:
            return f"{device} has a root of somebody else's: {root[0]} {root[1]}:"
        done = self._run(("tc", "-batch", "-"), "".join(f"{line}\n" for line in lines))
        return _reason(done) if done.code else len(lines)

    def _table(self, text: str) -> int | str:
        if self._made.get(NET_CLASSES) == text and not self._run(("nft", "list", "table", "inet", TABLE), "").code:
            return 0
        done = self._run(("nft", "-f", "-"), text)
        return _reason(done) if done.code else 1

    def _take_away(self) -> Done:
        """What bears our name: the table, and the root of the devices whose packets it put into classes."""
        self._made = {}
        if self._run(("nft", "list", "table", "inet", TABLE), "").code:
            return Done()
        problems: list[Problem] = []
        shown = self._run(("tc", "qdisc", "show"), "")
        devices = [
            name for kind, handle, name in _ROOT_QDISC.findall(shown.out) if (kind, handle) == ("htb", str(ROOT))
        ]
        commands = [("tc", "qdisc", "del", "dev", name, "root") for name in devices]
        for command in (*commands, ("nft", "delete", "table", "inet", TABLE)):
            done = self._run(command, "")
            if done.code:
                problems.append(Problem(field="network", message=f"cannot be taken away: {_reason(done)}"[:300]))
        return Done(len(devices) + 1, tuple(problems))


def _reason(output: Output) -> str:
    return (output.error or output.out).strip().replace("\n", "; ") or f"exit status {output.code}"
