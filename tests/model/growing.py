"""A Reservation that grows in place (R18): on a node of two units it holds one, and a pod waits for the other.

Its resize key goes up and down. A solver lets it grow, or places the pod; who writes its status gives back what the key
does not ask for any more; cluster-writer sends amounts and plan, each guarded by the version that was judged. Views
are late and requests stay on their way for as long as they like; either the key goes up twice, or LEDGER is lost. That
two solvers do not decide the same is R1's: it is given here. The pod is bound once it is decided: nothing hangs on the
time between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.model.rules import Rules

CAPACITY: Final = 2
LESS: Final = 1
MORE: Final = 2
SOLVER: Final = 0
WRITER: Final = 1
LOWERS: Final = 1
"""How often the key goes down."""
PLANS: Final = 3
FAULTS: Final = frozenset({"the key goes up", "the key goes down", "LEDGER is lost", "an answer is lost"})
FAIR_STEPS: Final = 100


class Object(NamedTuple):
    """The Reservation at the API server, and whether the pod is bound."""

    version: int = 0
    attempt: int = 0
    plan: int = 0
    held: int = LESS
    asks: int = LESS
    is_pod_there: bool = False


class Growth(NamedTuple):
    """A decision: the plan that it is, the one that it follows, and how much it says."""

    plan: int
    follows: int
    attempt: int
    amount: int


class Ledger(NamedTuple):
    """How often its node's account was written, the decision under the key, whether there is one for the pod."""

    writes: int = 0
    epoch: int = 0
    growth: Growth | None = None
    has_pod: bool = False


class Request(NamedTuple):
    """On its way to the API server: the amounts, or the plan behind them."""

    what: str
    growth: Growth
    version: int


class Moment(NamedTuple):
    """What is so, what solver and cluster-writer have read, and what may still happen."""

    object: Object = Object()
    ledger: Ledger = Ledger()
    seen: tuple[Object, Object] = (Object(), Object())
    read: tuple[Ledger, Ledger] = (Ledger(), Ledger())
    network: frozenset[Request] = frozenset()
    is_lost: bool = False
    fenced: int = -1
    """The version at which it was fenced, or looked at, since the loss."""
    needs: int = 0
    """The version that a view needs in this epoch (R12)."""
    plans: int = 0
    raises: int = 1
    lowers: int = LOWERS
    losses: int = 0
    bad: str = ""


class GrowthStep(NamedTuple):
    """Something that may happen next."""

    what: str
    details: tuple[object, ...]
    after: Moment


class Growing:
    """The transition system. Rules: R18 (`growth_follows`, `growth_shown`, `growth_held`, `amounts_first`,
    `growth_asked`, `growth_fenced`); R1, R5, R6 and R12 are in force."""

    def __init__(self, rules: Rules, *, is_lost: bool) -> None:
        self._rules = rules
        self._is_lost = is_lost

    def initial(self) -> Moment:
        """It is placed and holds one unit, the pod waits."""
        return Moment(losses=1) if self._is_lost else Moment(raises=2)

    def canonical(self, now: Moment) -> Moment:
        """Nothing is alike."""
        return now

    def broken(self, now: Moment) -> str:
        """What a request or a commit has broken."""
        return now.bad

    def stuck(self, now: Moment) -> str:
        """It does not grow, or the pod waits, although there is room and nothing more goes wrong."""
        now = now._replace(plans=-PLANS)
        for _ in range(FAIR_STEPS):
            now = next((step.after for step in self.steps(now) if step.what not in FAULTS), now)
            if now.bad:
                return now.bad
        there = now.object
        if there.held < there.asks and not there.is_pod_there:
            return "it does not grow, and there is room"
        return "the pod starves" if there.held <= LESS and there.asks <= LESS and not there.is_pod_there else ""

    def steps(self, now: Moment) -> Iterator[GrowthStep]:
        """Everything that may happen next; what leads to rest comes first."""
        for reader in range(len(now.seen)):
            if now.seen[reader] != now.object:
                yield GrowthStep("STATE is read", (reader,), now._replace(seen=_set(now.seen, reader, now.object)))
            if now.read[reader] != now.ledger and not now.is_lost:
                yield GrowthStep("LEDGER is read", (reader,), now._replace(read=_set(now.read, reader, now.ledger)))
        for request in sorted(now.network):
            yield from self._land(now._replace(network=now.network - {request}), request)
        there = now.object
        if there.asks < there.held:
            given = _changed(now, held=there.asks)
            yield GrowthStep("what is not asked for is given back", (), given)
        if now.is_lost:
            yield from self._raise_epoch(now)
        else:
            yield from self._writer(now)
        yield from self._solver(now)
        if now.raises and there.asks == LESS:
            yield GrowthStep("the key goes up", (), _changed(now, asks=MORE)._replace(raises=now.raises - 1))
        if now.lowers and there.asks == MORE:
            yield GrowthStep("the key goes down", (), _changed(now, asks=LESS)._replace(lowers=now.lowers - 1))
        if now.losses:
            lost = now._replace(losses=now.losses - 1, is_lost=True, fenced=-1, read=_set(now.read, WRITER, Ledger()))
            yield GrowthStep("LEDGER is lost", (), lost)

    def _claim(self, ledger: Ledger, seen: Object) -> int:
        """What the Reservation holds in somebody's book."""
        growth = ledger.growth
        if growth is None or not self._rules.growth_held or growth.plan == seen.plan or growth.attempt < seen.attempt:
            return seen.held
        return max(seen.held, growth.amount)

    def _solver(self, now: Moment) -> Iterator[GrowthStep]:
        seen, read = now.seen[SOLVER], now.read[SOLVER]
        is_fit = read.writes == now.ledger.writes and read.epoch == now.ledger.epoch  # R1
        if not is_fit or now.is_lost or (read.epoch and seen.version < now.needs):
            return
        has_pod = read.has_pod or seen.is_pod_there
        growth = read.growth
        is_over = growth is None or growth.plan == seen.plan or growth.attempt < seen.attempt
        is_free = is_over or not self._rules.growth_shown
        if seen.asks > seen.held and is_free and seen.asks + has_pod <= CAPACITY and now.plans < PLANS:
            made = Growth(now.plans + PLANS + 1, seen.plan, seen.attempt, seen.asks)
            ledger = now.ledger._replace(writes=now.ledger.writes + 1, growth=made)
            after = now._replace(ledger=ledger, plans=now.plans + 1)
            yield GrowthStep("it is to grow", (made.plan,), _judged(after))
        if not has_pod and self._claim(read, seen) + 1 <= CAPACITY:
            ledger = now.ledger._replace(writes=now.ledger.writes + 1, has_pod=True)
            after = now._replace(ledger=ledger, object=now.object._replace(is_pod_there=True))
            yield GrowthStep("the pod is placed", (), _judged(after))

    def _writer(self, now: Moment) -> Iterator[GrowthStep]:
        """What it does about the decision, by what it has read."""
        seen, growth = now.seen[WRITER], now.read[WRITER].growth
        if growth is None or growth.attempt != seen.attempt:
            return
        is_due = seen.plan == growth.follows if self._rules.growth_follows else seen.held < growth.amount
        if not is_due:
            return
        if self._rules.growth_asked and seen.held < growth.amount and seen.asks < growth.amount:
            if seen.version == now.object.version:
                yield GrowthStep("withdrawn", (growth.plan,), _changed(now, attempt=seen.attempt + 1))
            return
        is_first = seen.held < growth.amount if self._rules.amounts_first else seen.plan == growth.follows
        what = "amounts" if is_first == self._rules.amounts_first else "plan"
        request = Request(what, growth, seen.version)
        if request not in now.network and seen.version >= now.object.version:
            yield GrowthStep(f"{what} are sent", (growth.plan,), now._replace(network=now.network | {request}))

    def _land(self, now: Moment, request: Request) -> Iterator[GrowthStep]:
        there, growth = now.object, request.growth
        if request.version != there.version:
            yield GrowthStep("a request is refused", (request.what, growth.plan), now)
            return
        if request.what == "amounts":
            after = _changed(now, held=max(there.held, growth.amount))
            follow = self._rules.amounts_first
        else:
            after = _changed(now, plan=growth.plan)
            follow = not self._rules.amounts_first
        after = _judged(after)
        if follow:
            second = Request("plan" if request.what == "amounts" else "amounts", growth, after.object.version)
            answered = after._replace(network=after.network | {second})
            yield GrowthStep("a request lands, and the next one is sent", (request.what, growth.plan), answered)
            yield GrowthStep("an answer is lost", (request.what, growth.plan), after)
        else:
            yield GrowthStep("a request lands", (request.what, growth.plan), after)

    def _raise_epoch(self, now: Moment) -> Iterator[GrowthStep]:
        """Who asks for more is fenced, and looked at once more before the epoch is written."""
        there = now.object
        if now.fenced != there.version:
            if self._rules.growth_fenced and there.asks > there.held:
                after = _changed(now, attempt=there.attempt + 1)
            else:
                after = now
            yield GrowthStep("writer fences", (), after._replace(fenced=after.object.version))
        else:
            ledger = Ledger(now.ledger.writes + 1, now.ledger.epoch + 1)
            raised = now._replace(ledger=ledger, is_lost=False, needs=there.version)
            yield GrowthStep("writer writes the epoch", (), raised)


def _changed(now: Moment, **what: int) -> Moment:
    return now._replace(object=now.object._replace(version=now.object.version + 1, **what))  # type: ignore[arg-type]


def _judged(now: Moment) -> Moment:
    """Both that the objects hold too much, and that the ledger has promised it."""
    there, growth = now.object, now.ledger.growth
    promised = there.held
    if growth is not None and growth.attempt == there.attempt and growth.follows == there.plan:
        promised = max(promised, growth.amount)
    return now._replace(bad="capacity is given twice") if there.is_pod_there and promised >= CAPACITY else now


def _set(values: tuple, at: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:at], value, *values[at + 1 :])
