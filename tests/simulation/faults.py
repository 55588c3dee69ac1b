"""What goes wrong in one run, drawn from its seed: a list of timed faults, plain data.

Each run has its own profile: which kinds of faults occur in it and how often, so that some runs are one long storm of
one kind, and others a mix. After `end_s` nothing new goes wrong, and what is under way ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

SERVICES: Final = (
    "cluster-watcher",
    "cluster-writer",
    "device-inventory",
    "quota-manager",
    "reservation-manager",
    "placement-solver",
)
"""Those that take part in a placement; the first replica of each bears its name."""
BUCKETS: Final = ("berth_state", "berth_inventory", "berth_quota", "berth_reservation", "berth_ledger", "berth_lease")


OF_THE_API: Final = ("cluster-watcher", "cluster-writer", "cluster-writer")
"""Those that talk to the API server."""
SILENCE_S: Final = 150.0
"""After so long without a byte a watch is taken for dead."""
WATCH_LIFE_S: Final = 15.0
BACK_OFF_S: Final = 30.0
"""The longest pause between two tries to follow a kind of objects."""
ACK_WAIT_S: Final = 30.0
"""A command that is not acknowledged for so long is delivered again."""


class Fault(NamedTuple):
    """`kind` says what `target`, `amount` and `for_s` mean; see `KINDS`."""

    at_s: float
    kind: str
    target: str = ""
    amount: float = 0.0
    for_s: float = 0.0

    def __str__(self) -> str:
        words = [self.kind, self.target]
        words += [f"{self.amount:g}"] if self.amount else []
        words += [f"for {self.for_s:.2f} s"] if self.for_s else []
        return f"{self.at_s:9.3f} s  " + " ".join(word for word in words if word)

    @property
    def lasts_s(self) -> float:
        """How long it can be felt: what is silent or on its way stays so for longer than it is made so."""
        match self.kind, self.target:
            case "watches fail", "silent":
                return self.for_s + WATCH_LIFE_S + SILENCE_S
            case "deliveries stuck", _:
                return self.for_s + self.amount
            case _:
                return self.for_s

    @property
    def hides_s(self) -> float:
        """How long somebody may not see what the API shows: what is refused again and again is asked for less often."""
        is_of_api = self.kind.startswith(("api ", "watches ", "pages ", "history ", "stale "))
        return self.lasts_s + BACK_OFF_S * is_of_api


Draw = Callable[[random.Random, float], Fault]


def _who(rng: random.Random) -> str:
    # The two whose state is hardest to take over get more than their share.
    return rng.choice((*SERVICES, "cluster-writer", "placement-solver", "cluster-writer"))


def _pause_s(rng: random.Random) -> float:
    return rng.choice((0.05, 0.5, 3.0, 9.0, 20.0)) * rng.uniform(0.5, 1.5)


KINDS: Final[dict[str, Draw]] = {
    # A process: killed (after so many more callbacks), stopped and continued, its wall clock set, cut off the bus.
    "kill": lambda rng, at_s: Fault(at_s, "kill", _who(rng), rng.choice((0, 1, 3, 10, 30, 100))),
    "pause": lambda rng, at_s: Fault(at_s, "pause", _who(rng), for_s=_pause_s(rng)),
    "clock": lambda rng, at_s: Fault(at_s, "clock", _who(rng), rng.choice((-300.0, -20.0, 20.0, 300.0))),
    "cut": lambda rng, at_s: Fault(at_s, "cut", _who(rng), for_s=_pause_s(rng)),
    # The bus.
    "bus restart": lambda rng, at_s: Fault(at_s, "bus restart", for_s=rng.choice((0.1, 1.0, 6.0))),
    "bus slow": lambda rng, at_s: Fault(at_s, "bus slow", amount=rng.choice((0.02, 0.3, 2.0)), for_s=_pause_s(rng)),
    "late reader": lambda rng, at_s: Fault(at_s, "late reader", _who(rng), for_s=_pause_s(rng)),
    "deliveries stuck": lambda rng, at_s: Fault(
        at_s, "deliveries stuck", _who(rng), rng.uniform(2.0, 2.5) * ACK_WAIT_S, rng.uniform(0.5, 5.0)
    ),
    "acks lost": lambda rng, at_s: Fault(at_s, "acks lost", amount=rng.choice((0.05, 0.3, 1.0)), for_s=_pause_s(rng)),
    "twice": lambda rng, at_s: Fault(at_s, "twice", amount=rng.choice((0.1, 0.5)), for_s=_pause_s(rng)),
    "tail lost": lambda rng, at_s: Fault(
        at_s, "tail lost", rng.choice(("", "berth_ledger", "berth_ledger", *BUCKETS)), rng.choice((1, 3, 10, 60))
    ),
    "leader moved": lambda rng, at_s: Fault(
        at_s, "leader moved", rng.choice(("berth_ledger", *BUCKETS)), rng.choice((0, 1, 3, 10))
    ),
    "entry garbled": lambda rng, at_s: Fault(at_s, "entry garbled", "berth_ledger", rng.choice((1, 1, 3))),
    # Another of its servers leads a bucket, maybe with an older store, and every connection stands.
    "led anew": lambda rng, at_s: Fault(
        at_s, "led anew", rng.choice(("", "berth_ledger", *BUCKETS)), rng.choice((0, 1, 3, 10, 60))
    ),
    # It has reached its limit of bytes: nothing more goes in until there is space again.
    "bucket full": lambda rng, at_s: Fault(
        at_s, "bucket full", rng.choice(("berth_ledger", *BUCKETS)), for_s=_pause_s(rng)
    ),
    "bucket lost": lambda rng, at_s: Fault(at_s, "bucket lost", rng.choice((*BUCKETS, "berth_ledger"))),
    "bucket remade": lambda rng, at_s: Fault(at_s, "bucket remade", rng.choice(BUCKETS)),
    "bus empty": lambda rng, at_s: Fault(at_s, "bus empty"),
    # The API server.
    "api errors": lambda rng, at_s: Fault(
        at_s, "api errors", rng.choice(("429", "500", "503")), rng.choice((0.1, 0.5, 1.0)), _pause_s(rng)
    ),
    "api lost answers": lambda rng, at_s: Fault(
        at_s, "api lost answers", rng.choice(("before", "after")), rng.choice((0.1, 0.5, 1.0)), _pause_s(rng)
    ),
    "api turns away": lambda rng, at_s: Fault(
        at_s, "api turns away", amount=rng.choice((0.1, 0.5, 1.0)), for_s=_pause_s(rng)
    ),
    # An admission policy of the cluster: nobody binds onto some node.
    "binds barred": lambda rng, at_s: Fault(at_s, "binds barred", for_s=_pause_s(rng)),
    "api slow": lambda rng, at_s: Fault(at_s, "api slow", amount=rng.choice((0.2, 5.0, 30.0)), for_s=_pause_s(rng)),
    "api away": lambda rng, at_s: Fault(at_s, "api away", for_s=_pause_s(rng)),
    "api cut": lambda rng, at_s: Fault(at_s, "api cut", rng.choice(OF_THE_API), for_s=_pause_s(rng)),
    "watches fail": lambda rng, at_s: Fault(
        at_s, "watches fail", rng.choice(("silent", "late", "cut", "ended")), rng.choice((0.3, 1.0)), _pause_s(rng)
    ),
    "pages expired": lambda rng, at_s: Fault(at_s, "pages expired", amount=rng.choice((0.3, 0.8)), for_s=_pause_s(rng)),
    "watches closed": lambda rng, at_s: Fault(at_s, "watches closed"),
    "history gone": lambda rng, at_s: Fault(at_s, "history gone"),
    "stale lists": lambda rng, at_s: Fault(at_s, "stale lists", amount=rng.choice((5, 50)), for_s=_pause_s(rng)),
    "conflicts": lambda rng, at_s: Fault(at_s, "conflicts", amount=rng.choice((0.1, 0.5)), for_s=_pause_s(rng)),
}


def schedule(rng: random.Random, end_s: float) -> list[Fault]:
    """The faults of a run, in order of time."""
    kinds = list(KINDS)
    kinds = rng.sample(kinds, rng.choice((1, 2, 3, 5, len(kinds))))
    every_s = rng.choice((4.0, 10.0, 30.0, 60.0))
    found: list[Fault] = []
    at_s = rng.expovariate(1 / every_s)
    while at_s < end_s:
        found.append(KINDS[rng.choice(kinds)](rng, at_s))
        # Faults come in groups, too: the second while the first is being dealt with.
        at_s += rng.expovariate(1 / every_s) if rng.random() < 0.7 else rng.uniform(0.0, 1.0)
    return found


def departures(rng: random.Random, counts: Mapping[str, int], end_s: float) -> list[Fault]:
    """Of those with a second replica one may go for good, killed or told to: somebody wants fewer of them."""
    found: list[Fault] = []
    for service, count in sorted(counts.items()):
        if count > 1 and rng.random() < 0.3:
            found.append(Fault(rng.uniform(5.0, end_s), "gone", service, rng.choice((0, 1))))
    return found


def replicas(rng: random.Random) -> dict[str, int]:
    """How many of each service run: mostly one, sometimes a second solver, or a stand-by of those that lead.

    Now and then the auditor looks on, or slo-manager sees to the strategies of nodes, and mostly there is a node then
    that follows them.
    """
    found = {
        service: 2 if rng.random() < (0.35 if service == "placement-solver" else 0.15) else 1 for service in SERVICES
    }
    found |= {"auditor": int(rng.random() < 0.15), "slo-manager": int(rng.random() < 0.15)}
    return found | {"node-qos-enforcer": int(found["slo-manager"] and rng.random() < 0.7)}
