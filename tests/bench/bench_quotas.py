"""What one pod or one quota costs where there are many quota groups.

quota-manager: a whole round (figures in order, messages to write) after one pod, one changed min, one group that moves,
and one that comes and goes; groups hang below parents of 100, all of them asking for more than they have. Then a pod
among siblings that all hang below one root. placement-solver: all messages of QUOTA read, with the question who pays
behind each, and what the verifier does when one group is another. Processor time in thousandths of a second, of the
small forest and of the large one in turns; prints medians and ratios, asserts nothing.

    python tests/bench/bench_quotas.py [--small 1000] [--large 10000] [--turns 15]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
from told import tell

from berth.bus.port import Entry
from berth.contracts import names
from berth.contracts.codec import decode, encode
from berth.contracts.quota import QuotaGroup
from berth.contracts.state import ElasticQuota, Node, Pod, PodTemplate, Synced
from berth.contracts.subjects import named_key, namespaced_key
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.verify.quotas import QuotaTallies
from berth.quota_manager.core.engine import Rules
from berth.quota_manager.reconciler import Reconciler
from berth.quota_manager.views import REQUIRED_KINDS
from berth.runtime.process import freeze_garbage_collection, tune_garbage_collection

FAN = 100
CPU = 1_000_000


class Manager:
    """quota-manager's reconciler with so many groups, each with one pod that runs."""

    def __init__(self, groups: int, *, flat: bool = False) -> None:
        self.reconciler = Reconciler(Rules(), on_news=lambda: None)
        self.now = 0.0
        self.put(named_key("node", "n"), Node(name="n", uid="n", version=1, allocatable={names.CPU: groups * 60}))
        self.parents = parents = [] if flat else [f"p{number}" for number in range(max(1, groups // FAN))]
        for name in parents:
            self.quota(name, minimum=FAN * 50, most=CPU, is_parent="true")
        for number in range(groups - len(parents)):
            name = f"g{number}"
            self.quota(name, parent=parents[number % len(parents)] if parents else "")
            self.pod(name, name, 100)
        for kind in REQUIRED_KINDS:
            self.put(f"synced.{kind}", Synced(kind=kind, version=1, complete=True))
        self.reconciler.view.end(1)
        self.reconciler.ledger.end(1)
        self.messages = self.round()
        for _ in range(groups // 100):  # what admission would have refused is looked at bit by bit
            self.round()

    def put(self, key: str, message: Any) -> None:
        """One message of STATE; None: it is gone."""
        value = b"" if message is None else encode(message)
        self.reconciler.view.apply(Entry(key, value, message is None, 1, 0, False, None))

    def quota(self, name: str, *, minimum: int = 50, most: int = CPU, parent: str = "", **labels: str) -> None:
        """An ElasticQuota."""
        said = {names.QUOTA_PREFIX + label.replace("_", "-"): value for label, value in labels.items()}
        said |= {names.LABEL_QUOTA_PARENT: parent} if parent else {}
        quota = ElasticQuota(
            namespace="ns",
            name=name,
            uid=name,
            version=1,
            labels=said,
            min={names.CPU: minimum},
            max={names.CPU: most},
        )
        self.put(namespaced_key("elasticquota", "ns", name), quota)

    def pod(self, name: str, quota: str, cpu: int) -> None:
        """A pod that runs."""
        template = PodTemplate(requests={names.CPU: cpu}, labels={names.LABEL_QUOTA_NAME: quota})
        self.put(
            namespaced_key("pod", "ns", name),
            Pod(namespace="ns", name=name, uid=name, version=1, template=template, node="n", phase="Running"),
        )

    def round(self) -> list[QuotaGroup]:
        """What has to be written now."""
        self.now += 1
        self.reconciler.settle(self.now)
        written = self.reconciler.writes(int(self.now * 1000), self.reconciler.published.keys)
        for key, message in written.items():
            self.reconciler.published.wrote(key, message)
        return [message for message in written.values() if message is not None]


def spent_ms(work: Callable[[], object]) -> float:
    """Processor time."""
    begin = time.process_time()
    work()
    return (time.process_time() - begin) * 1000


def news(manager: Manager, what: str, turn: int) -> Callable[[], object]:
    """One piece of news, and the round behind it."""

    def happen() -> None:
        name = f"g{turn}"
        if what == "pod":
            manager.pod(name, name, 101 + turn)
        elif what == "min":
            manager.quota(name, minimum=51 + turn, parent=f"p{turn % len(manager.parents)}")
        elif what == "move":
            manager.quota(name, parent=f"p{(turn + 3) % 10}")
        elif turn % 2:
            manager.put(namespaced_key("elasticquota", "ns", "guest"), None)
        else:
            manager.quota("guest", parent="p1")
        manager.round()

    return happen


def read(messages: list[bytes]) -> Quotas:
    """What a solver does with QUOTA."""
    quotas = Quotas()
    for value in messages:
        group = decode(value, QuotaGroup)
        quotas.see(group.tree, group.name, group)
        quotas.group_of(group.name, "ns")
    return quotas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=1000)
    parser.add_argument("--large", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    tune_garbage_collection()
    sizes = (options.small, options.large)
    managers = [Manager(size - 1) for size in sizes]  # one more may come
    flat = [Manager(size, flat=True) for size in sizes]
    freeze_garbage_collection()
    print(f"{'processor time, ms':<42}{sizes[0]:>10} groups{sizes[1]:>10} groups   ratio")

    def show(text: str, taken: tuple[list[float], list[float]]) -> None:
        small, large = map(statistics.median, taken)
        print(f"{text:<42}{small:>17.2f}{large:>17.2f}{large / max(small, 0.001):>8.1f}")
        tell("groups", what=text, small=sizes[0], large=sizes[1], small_ms=small, large_ms=large)

    def compare(text: str, made: list[Manager], what: str) -> None:
        taken: tuple[list[float], list[float]] = ([], [])
        for turn in range(options.turns):
            for each, times in zip(made, taken, strict=True):
                times.append(spent_ms(news(each, what, turn)))
        show(text, taken)

    compare("one pod", managers, "pod")
    compare("one quota's min", managers, "min")
    compare("one quota moves", managers, "move")
    compare("one quota comes or goes", managers, "guest")
    compare("one pod, all hungry siblings", flat, "pod")
    messages = [[encode(message) for message in each.messages] for each in managers]
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        for each, times in zip(messages, taken, strict=True):
            times.append(spent_ms(lambda each=each: read(each)))
    show("a solver reads QUOTA", taken)
    checked: tuple[list[float], list[float]] = ([], [])
    for each, times in zip(messages, checked, strict=True):
        quotas, tallies = read(each), QuotaTallies()
        view: Any = SimpleNamespace(quotas=quotas)
        tallies.used_of(view)
        group = quotas.groups["", "g1"]
        for turn in range(options.turns):
            quotas.see("", "g1", msgspec.structs.replace(group, revision=group.revision + turn))
            times.append(spent_ms(lambda view=view, tallies=tallies: tallies.used_of(view)))
    show("the verifier sees another group", checked)


if __name__ == "__main__":
    main()
