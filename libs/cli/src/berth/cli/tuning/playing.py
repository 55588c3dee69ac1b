"""Arrivals played through by the solver's own view and core: a cluster that fills up, and one where pods come and go.

Each pod is placed by itself. Prices are those that the solver would have learned from these arrivals.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from berth.cli.errors import CliError
from berth.cli.tuning.site import Arrival, Site
from berth.contracts.state import Pod, PodTemplate
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.plan import Candidate, Placement, spec_of
from berth.placement_solver.core.prices import program
from berth.placement_solver.core.prices.problem import Duals, PriceProblem
from berth.placement_solver.core.reasons import refusals_of
from berth.placement_solver.core.trial import Trial

LOADS: Final = (0.95, 1.05, 1.2)
"""GPUs that pods would hold on average if all were placed, as a part of those that there are."""
OVERLOAD: Final = 1.3
"""GPUs that arrive while nobody leaves."""
LEARNED: Final = 2000
"""So many arrivals has the solver seen before: enough to be priced by."""
STAYS: Final = 3
"""Mean stays that are played with departures; after the first of them it is measured."""
FILL: Final = ("fill.100", "fill.130")
NAMESPACE: Final = "tune"


def figures_of_churn(load: float) -> tuple[str, str, str]:
    """The names of the figures of one load: GPUs held on average, asked GPUs placed, asked whole nodes placed."""
    return f"churn.{load:g}.held", f"churn.{load:g}.placed", f"churn.{load:g}.whole"


class _Kind(NamedTuple):
    pod: Pod
    candidate: Candidate
    gpus: float
    is_whole: bool


class Player:
    """Plays on the nodes of a site under a configuration. What the price maker answers is remembered for all."""

    _answers: dict[bytes, Duals | None] = {}

    def __init__(self, site: Site, configuration: str | None) -> None:
        self._site = site
        self._configuration = configuration

    def fill(self, arrivals: Sequence[Arrival], seed: int) -> dict[str, float]:
        """Percent of all GPUs that are given out when what has arrived asks for 100 and for 130 percent of them."""
        rng = np.random.default_rng(seed)
        table = _Table(self._site, self._configuration, rng)
        kinds = [table.kind(each.template) for each in arrivals]
        self._learn(table, kinds, rng, leaves=False)
        order = [*rng.permutation(len(kinds)).tolist()]
        arrived = held = 0.0
        found: dict[str, float] = {}
        while arrived < OVERLOAD * table.gpus:
            at = order.pop() if order else int(rng.integers(len(kinds)))
            arrived += kinds[at].gpus
            held += kinds[at].gpus * (table.place(kinds[at]) is not None)
            self._price(table)
            if arrived >= table.gpus and FILL[0] not in found:
                found[FILL[0]] = 100.0 * held / table.gpus
        return {**found, FILL[1]: 100.0 * held / table.gpus}

    def churn(self, arrivals: Sequence[Arrival], load: float, seed: int) -> dict[str, float]:
        """Percent of GPUs that are held on average, and of asked GPUs and whole nodes that are placed."""
        rng = np.random.default_rng(seed)
        table = _Table(self._site, self._configuration, rng)
        kinds = [table.kind(each.template) for each in arrivals]
        self._learn(table, kinds, rng, leaves=True)
        gpus, stays = np.array([kind.gpus for kind in kinds]), np.array([each.stay_s for each in arrivals])
        # One pod comes in each unit of time. As many as there would be at a time if all were placed are there already:
        # who stays long is met more often, and has on average half of it before it.
        stays = stays * load * table.gpus / float((gpus * stays).mean())
        mean = float(stays.mean())
        there = rng.choice(len(kinds), rng.poisson(mean), p=stays / stays.sum())
        leaving: list[tuple[float, int, Trial, float]] = []
        held, number = 0.0, 0
        asked = placed = wholes = placed_wholes = shares = 0.0
        count = max(1, round(STAYS * mean))
        coming = [(0.0, int(at), float(rng.random())) for at in there]
        coming += [(float(now), int(rng.integers(len(kinds))), 1.0) for now in range(1, count + 1)]
        for now, at, part in coming:
            while leaving and leaving[0][0] <= now:
                _, _, trial, freed = heapq.heappop(leaving)
                trial.undo()
                held -= freed
                if freed:
                    table.cluster.prices.workload.left()
            kind = kinds[at]
            trial_of = table.place(kind)
            self._price(table)
            if trial_of is not None:
                number += 1
                held += kind.gpus
                heapq.heappush(leaving, (now + part * float(stays[at]), number, trial_of, kind.gpus))
            if now > count / STAYS:
                asked += kind.gpus
                placed += kind.gpus * (trial_of is not None)
                wholes += kind.is_whole
                placed_wholes += kind.is_whole and trial_of is not None
                shares += held / table.gpus
        names = figures_of_churn(load)
        found = {
            names[0]: 100.0 * shares / max(1, count - int(count / STAYS)),
            names[1]: 100.0 * placed / max(asked, 1e-9),
        }
        return {**found, names[2]: 100.0 * placed_wholes / wholes} if wholes else found

    def _learn(self, table: _Table, kinds: Sequence[_Kind], rng: np.random.Generator, *, leaves: bool) -> None:
        """The solver has seen such arrivals before, and where they leave, as many have left."""
        workload = table.cluster.prices.workload
        for at in rng.integers(len(kinds), size=LEARNED).tolist():
            workload.came(kinds[at].candidate.cls)
            if leaves and kinds[at].gpus:
                workload.left()
        self._price(table)

    def _price(self, table: _Table) -> None:
        prices = table.cluster.prices
        prices.look(0)
        question = prices.question(0)
        if question is not None and (answer := self._answer(question)) is not None:
            prices.answered(answer, 0)

    def _answer(self, question: PriceProblem) -> Duals | None:
        key = msgspec.msgpack.encode(question)
        if key not in self._answers:
            self._answers[key] = program.solve(question)  # a solver has a child of its own for this
        return self._answers[key]


class _Table:
    """A view of the nodes alone; their order, which decides ties, is drawn."""

    def __init__(self, site: Site, configuration: str | None, rng: np.random.Generator) -> None:
        self.cluster = ClusterView([site.scheduler], "berth-tune", is_configured=configuration is not None)
        if configuration is not None:
            self.cluster.configuration.read(configuration)
            if self.cluster.configuration.problems:
                first = self.cluster.configuration.problems[0]
                raise CliError(f"the configuration cannot be used: {first.field}: {first.message}")
        for message in site.common:
            self.cluster.read(*message)
        names = list(site.nodes)
        for at in rng.permutation(len(names)).tolist():
            for message in site.nodes[names[at]]:
                self.cluster.read(*message)
        self.cluster.end_of_state()
        nodes = self.cluster.nodes
        size = len(nodes)
        self._most = nodes.most_gpus
        self._by_template: dict[int, _Kind] = {}
        self._placed = 0
        self.gpus = float((nodes.fleet.percent_sum[:size] * nodes.alive[:size]).sum()) / 100.0
        """Cards that are free where nobody has come yet."""
        if not self.gpus:
            raise CliError("no node has GPUs: nothing of what can be set matters there")

    def kind(self, template: PodTemplate) -> _Kind:
        """What pods of a template are."""
        found = self._by_template.get(id(template))
        if found is None:
            cluster = self.cluster
            pod = Pod(namespace=NAMESPACE, name="", uid="", version=1, template=template)
            cls = cluster.classes.of(template, [])
            compiled = cls.rules.compile_pod(spec_of(pod))
            candidate = Candidate((NAMESPACE, ""), pod, cls, asked=compiled.asked, refusals=refusals_of(compiled))
            cluster.solver.costs.of(cls)  # its price is what the workload is counted by
            gpus = cls.price.gpus if cls.price is not None else 0.0
            is_whole = self._most > 1 and cls.want is not None and cls.want.instances >= self._most
            found = self._by_template[id(template)] = _Kind(pod, candidate, gpus, is_whole)
        return found

    def place(self, kind: _Kind) -> Trial | None:
        """One more comes: what it holds, to be taken back when it leaves; None: it goes nowhere."""
        self._placed += 1
        cluster, name = self.cluster, f"p{self._placed}"
        pod = msgspec.structs.replace(kind.pod, name=name, uid=name)
        cluster.prices.workload.came(kind.candidate.cls)
        trial = Trial(cluster.capacity)
        with cluster.solver.telling(words=False):
            found = cluster.solver.place(kind.candidate.alike(pod, None, 0), trial, "tune")
        return trial if isinstance(found, Placement) else None
