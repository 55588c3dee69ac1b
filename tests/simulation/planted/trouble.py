"""Groups of faults, each around one moment, and when they come."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.simulation.faults import Fault
from tests.simulation.owned import FICKLE_S
from tests.simulation.planted.users import BURST_EVERY_S, LOWERED_FOR_S, LOWERED_S

Draw = Callable[[random.Random, float], list[Fault]]
Schedule = Callable[[random.Random, float], list[Fault]]

WRITER, SOLVER, WATCHER = "cluster-writer", "placement-solver", "cluster-watcher"


def every(seconds: float, *draws: Draw, start_s: float = 6.0) -> Schedule:
    """One of these groups about every so many seconds."""

    def schedule(rng: random.Random, end_s: float) -> list[Fault]:
        found: list[Fault] = []
        at_s = start_s + rng.uniform(0.0, seconds)
        while at_s < end_s:
            found += rng.choice(draws)(rng, at_s)
            at_s += seconds * rng.uniform(0.6, 1.4)
        return sorted(found)

    return schedule


def leader_moved(rng: random.Random, at_s: float) -> list[Fault]:
    """A stream comes to be led by a server that lacks its newest messages; connections stand."""
    bucket = rng.choice(("berth_state", "berth_state", "berth_ledger", "berth_inventory", "berth_quota"))
    return [Fault(at_s, "leader moved", bucket, rng.choice((1, 3, 10)))]


def state_led_anew(rng: random.Random, at_s: float) -> list[Fault]:
    """STATE comes to be led by a server that lacks its newest messages; connections and consumers stand."""
    return [Fault(at_s, "leader moved", "berth_state", rng.choice((1, 3, 10)))]


def garbled(rng: random.Random, at_s: float) -> list[Fault]:
    """Entries of LEDGER become garbage while binds take their time."""
    return [
        Fault(at_s, "api slow", amount=rng.choice((2.0, 5.0)), for_s=2.0),
        Fault(at_s + rng.uniform(0.3, 2.0), "entry garbled", "berth_ledger", rng.choice((1, 3))),
    ]


def clock_jumps(rng: random.Random, at_s: float) -> list[Fault]:
    """The wall clock of reservation-manager is wrong from now on, until it is put right."""
    off_s = rng.choice((-90.0, -20.0, 20.0, 90.0))
    return [
        Fault(at_s, "clock", "reservation-manager", off_s),
        Fault(at_s + rng.uniform(3.0, 12.0), "clock", "reservation-manager", -off_s),
    ]


def nothing(rng: random.Random, at_s: float) -> list[Fault]:
    """All is well."""
    return []


def group_made_anew(rng: random.Random, at_s: float) -> list[Fault]:
    """kubelet takes the best-effort group away, and makes it again."""
    return [Fault(at_s, "group gone", for_s=rng.uniform(0.1, 4.0))]


def late(target: str, most_s: float, for_s: float = 6.0) -> Draw:
    """A view that lags for a while."""
    return lambda rng, at_s: [Fault(at_s, "late view", target, most_s, for_s * rng.uniform(0.5, 1.5))]


def killed(service: str) -> Draw:
    """A process, at any step."""
    return lambda rng, at_s: [Fault(at_s, "kill", service, rng.choice((0, 3, 30, 100)))]


def paused(service: str, *seconds: float) -> Draw:
    """A process stands still."""
    return lambda rng, at_s: [Fault(at_s, "pause", service, for_s=rng.choice(seconds) * rng.uniform(0.8, 1.2))]


def slow_bus(most_s: float, for_s: float) -> Draw:
    """Every message takes its time."""
    return lambda rng, at_s: [Fault(at_s, "bus slow", amount=most_s, for_s=for_s)]


def halves(rng: random.Random, at_s: float) -> list[Fault]:
    """A solver reads batches by halves, and binds take their time, so that STATE does not show what it misses."""
    return [
        Fault(at_s, "half batches", f"{SOLVER}:berth_ledger", 0.4, 6.0),
        Fault(at_s, "binds slow", amount=4.0, for_s=6.0),
    ]


def losses(*, kill_after_s: tuple[float, float] | None) -> Schedule:
    """While the pods of a burst are being bound STATE stands still, and the ledger loses its tail; the writer may be
    killed soon after."""

    def schedule(rng: random.Random, end_s: float) -> list[Fault]:
        found: list[Fault] = []
        burst_s = 4.0
        while burst_s < end_s:
            at_s = burst_s + rng.uniform(1.0, 3.0)
            lost_s = at_s + rng.uniform(0.7, 2.0)
            # Plans follow each other slowly, so that many pods wait while some are bound.
            found.append(Fault(burst_s, "bus slow", amount=0.4, for_s=9.0))
            found.append(Fault(at_s, "pause", WATCHER, for_s=rng.uniform(10.0, 14.0)))
            found.append(Fault(lost_s, "tail lost", "berth_ledger", rng.choice((3, 6, 9, 12))))
            if kill_after_s is not None:
                found.append(Fault(lost_s + rng.uniform(*kill_after_s), "all killed", WRITER, rng.choice((0, 10, 60))))
            burst_s += BURST_EVERY_S
        return sorted(found)

    return schedule


def alone(rng: random.Random, at_s: float) -> list[Fault]:
    """A solver comes back, believes itself alone, and the other learns late of what it decides."""
    return [
        Fault(at_s, "kill", SOLVER),
        *(Fault(at_s + 0.1 * number, "late view", f"{SOLVER}:berth_ledger", 2.0, 7.0) for number in range(2)),
    ]


def read_by_halves_after_a_loss(rng: random.Random, at_s: float) -> list[Fault]:
    """A solver is cut off; meanwhile pods are bound, the ledger loses its tail, and pods change once more. What it
    reads then skips what is superseded, and comes by halves."""
    return [
        Fault(at_s - 3.0, "binds slow", amount=4.0, for_s=6.0),
        Fault(at_s, "cut", SOLVER, for_s=rng.uniform(4.5, 6.0)),
        Fault(at_s + 0.1, "half batches", f"{SOLVER}:berth_state", 1.0, 12.0),
        Fault(at_s + rng.uniform(0.2, 1.5), "tail lost", "berth_ledger", rng.choice((3, 9, 24))),
    ]


def quota_late(rng: random.Random, end_s: float) -> list[Fault]:
    """One solver does not hear that the group may use less."""
    return [Fault(at_s - 1.0, "late view", f"{SOLVER}:berth_quota", 60.0, LOWERED_FOR_S - 3.0) for at_s in LOWERED_S]


def emptied_without_quotas(rng: random.Random, at_s: float) -> list[Fault]:
    """The bus comes back empty, and who works out quotas comes back later."""
    return [Fault(at_s, "bus empty"), Fault(at_s, "pause", "quota-manager", for_s=rng.uniform(4.0, 9.0))]


def state_remade(rng: random.Random, at_s: float) -> list[Fault]:
    """STATE is deleted and made again while everybody goes on."""
    return [Fault(at_s, "bucket remade", "berth_state")]


def prices_lost(rng: random.Random, at_s: float) -> list[Fault]:
    """PRICE is lost, made again, or loses its newest writes."""
    kind = rng.choice(("bucket lost", "bucket remade", "tail lost", "led anew"))
    return [Fault(at_s, kind, "berth_price", rng.choice((1, 3)) if kind in ("tail lost", "led anew") else 0.0)]


def prices_late(rng: random.Random, at_s: float) -> list[Fault]:
    """PRICE takes nothing for a while, or is read late."""
    if rng.random() < 0.5:
        return [Fault(at_s, "bucket full", "berth_price", for_s=rng.uniform(2.0, 9.0))]
    return [Fault(at_s, "late view", f"{SOLVER}:berth_price", 3.0, rng.uniform(1.0, 6.0))]


def ledger_remade(rng: random.Random, at_s: float) -> list[Fault]:
    """LEDGER is deleted and made again while everybody goes on."""
    return [Fault(at_s, "bucket remade", "berth_ledger")]


def led_anew(rng: random.Random, at_s: float) -> list[Fault]:
    """A bucket loses its newest writes with its leader, and every connection stands."""
    bucket = rng.choice(("berth_state", "berth_ledger", "berth_state", "berth_reservation", "berth_quota"))
    return [Fault(at_s, "led anew", bucket, rng.choice((0, 1, 3, 6, 12)))]


def inventory_lost(rng: random.Random, at_s: float) -> list[Fault]:
    """INVENTORY loses its newest writes, and who would write them again stands still."""
    return [
        Fault(at_s, "pause", "device-inventory", for_s=rng.uniform(4.0, 8.0)),
        Fault(at_s + 0.1, "tail lost", "berth_inventory", rng.choice((1, 2))),
    ]


def leases_fail(rng: random.Random, at_s: float) -> list[Fault]:
    """No wave can begin for a while, and everything else goes on."""
    return [Fault(at_s, "leases fail", for_s=rng.uniform(14.0, 20.0))]


def slow_binds_and_loss(rng: random.Random, at_s: float) -> list[Fault]:
    """Binds are on their way while the ledger loses its tail."""
    return [
        Fault(at_s, "binds slow", amount=8.0, for_s=6.0),
        Fault(at_s + rng.uniform(0.5, 6.0), "tail lost", "berth_ledger", rng.choice((3, 12, 40))),
    ]


def lost_binds(rng: random.Random, at_s: float) -> list[Fault]:
    """Binds without an answer."""
    return [Fault(at_s, "binds lost", amount=0.6, for_s=4.0)]


def binds_lost_and_writer_killed(rng: random.Random, at_s: float) -> list[Fault]:
    """cluster-writer dies while binds of several plans have no answer yet."""
    died_s = at_s + rng.uniform(1.0, 3.5)
    return [*lost_binds(rng, at_s), Fault(died_s, "kill", "cluster-writer", rng.choice((0, 3, 30)))]


def full(rng: random.Random, at_s: float) -> list[Fault]:
    """A bucket takes nothing more for a while, maybe since something of LEDGER is lost."""
    bucket = rng.choice(("berth_ledger", "berth_ledger", "berth_state", "berth_quota", "berth_reservation"))
    found = [Fault(at_s, "bucket full", bucket, for_s=rng.uniform(2.0, 15.0))]
    if bucket == "berth_ledger" and rng.random() < 0.5:
        found.append(Fault(at_s + rng.uniform(0.0, 1.0), "tail lost", bucket, rng.choice((3, 10))))
    return found


def barred(rng: random.Random, at_s: float) -> list[Fault]:
    """An admission policy lets nobody bind onto some node."""
    return [Fault(at_s, "binds barred", for_s=rng.uniform(2.0, 10.0))]


def turned_away(rng: random.Random, at_s: float) -> list[Fault]:
    """A proxy before the API server answers in its place."""
    return [Fault(at_s, "api turns away", amount=rng.choice((0.5, 1.0)), for_s=4.0)]


def evictions_held_up(rng: random.Random, end_s: float) -> list[Fault]:
    """While pods come that others have to leave for, deletions are long on their way, whoever sent them is killed, and
    another one goes on; or they do not arrive for a while."""
    found: list[Fault] = []
    for number in range(int(end_s / BURST_EVERY_S)):
        at_s = FICKLE_S + BURST_EVERY_S * number
        if rng.random() < 0.6:
            found.append(Fault(at_s, "deletions slow", amount=28.0, for_s=4.0))
            found.append(Fault(at_s + rng.uniform(2.0, 4.0), "kill", WRITER))
        else:
            found.append(Fault(at_s, "deletions lost", for_s=12.0))
    return found


def api_trouble(rng: random.Random, at_s: float) -> list[Fault]:
    """The API server fails, and the writer is killed."""
    return [
        Fault(at_s, "api errors", "503", 1.0, rng.uniform(2.0, 5.0)),
        Fault(at_s + rng.uniform(0.0, 3.0), "kill", WRITER, rng.choice((0, 10, 60))),
    ]
