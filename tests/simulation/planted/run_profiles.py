"""The kinds of runs in which planted bugs come up: small crowded clusters, and one kind of trouble each.

Each holds without a bug; what breaks in one of them is a defect of the code.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tests.simulation import (
    dividing,
    gathers,
    hooked,
    inside,
    lenders,
    lending,
    mates,
    owned,
    picking,
    pressing,
    profiled,
    recording,
    reserved_members,
    shares,
    silent,
    volumes,
    webhooks,
    zoned,
)
from tests.simulation.inside_machine import BusyMachine
from tests.simulation.planted import moving, trouble, users
from tests.simulation.planted.bookings import (
    bookings,
    borrowed,
    busy,
    displacing,
    grown,
    handed_over,
    lent_for_long,
    restricted,
    taken_over,
    windows,
)
from tests.simulation.planted.injectors import Saboteur
from tests.simulation.planted.trouble import SOLVER, WRITER, every, late
from tests.simulation.run_profile import RunProfile
from tests.simulation.services import WEBHOOK
from tests.simulation.workload import Size

from berth.simcluster.controllers import ControllerSettings


def one_each(rng: random.Random) -> Mapping[str, int]:
    """One replica of everything."""
    return {}


def two_solvers(rng: random.Random) -> Mapping[str, int]:
    """Two that share the work."""
    return {SOLVER: 2}


def four_solvers(rng: random.Random) -> Mapping[str, int]:
    """Enough of them for several plans to be in the making."""
    return {SOLVER: 4}


def with_slo_manager(rng: random.Random) -> Mapping[str, int]:
    """Two that share the work, and nodes that lend."""
    return {SOLVER: 2, "slo-manager": 1}


def with_webhooks(rng: random.Random) -> Mapping[str, int]:
    """Nodes that lend, two replicas of the webhook, and the auditor."""
    return {"slo-manager": 1, WEBHOOK: 2, "auditor": 1}


def with_recorder(rng: random.Random) -> Mapping[str, int]:
    """Two that share the work, and one who takes down what they read."""
    return {SOLVER: 2, recording.RECORDER: 1}


def with_yarn(rng: random.Random) -> Mapping[str, int]:
    """Nodes that lend to YARN as well, and maybe a second replica that sees to it."""
    return {"slo-manager": 1, "yarn-operator": rng.choice((1, 2))}


def with_an_agent(rng: random.Random) -> Mapping[str, int]:
    """A node that follows the strategies of slo-manager."""
    return {"slo-manager": 1, "node-qos-enforcer": 1}


def two_solvers_and_an_agent(rng: random.Random) -> Mapping[str, int]:
    """Two that share the work, and a node that says itself what is within it."""
    return {SOLVER: 2, **with_an_agent(rng)}


def watched_solvers_and_an_agent(rng: random.Random) -> Mapping[str, int]:
    """The same, and the auditor looks on."""
    return {**two_solvers_and_an_agent(rng), "auditor": 1}


def watched_solvers(rng: random.Random) -> Mapping[str, int]:
    """Two that share the work, and the auditor looks on."""
    return {SOLVER: 2, "auditor": 1}


SHORT: Final = RunProfile(
    end_s=70.0,
    whole_s=80.0,
    settle_s=90.0,
    size=Size(nodes=3, singles=110),
    cluster=users.cards,
    actions=users.crowd,
    faults=every(5.0, trouble.nothing),
    replicas=one_each,
    injector=Saboteur,
)
LATE_LEDGER: Final = replace(
    SHORT,
    replicas=two_solvers,
    faults=every(4.0, late(f"{SOLVER}:berth_ledger", 1.5), trouble.killed(SOLVER)),
)
LEADERS_MOVE: Final = replace(SHORT, faults=every(6.0, trouble.leader_moved))
ERAS: Final = replace(
    SHORT,
    faults=every(5.0, trouble.state_led_anew),
    # Who looks at the leader finds out by himself, a few seconds later.
    constants={"berth.bus.leader_watch.LOOK_EVERY_S": 600.0},
)
"""Only what the owner writes tells its readers of a loss."""
LENT: Final = replace(
    SHORT, cluster=lending.cluster, actions=lending.crowd, replicas=with_slo_manager, faults=every(9.0, trouble.nothing)
)
"""Batch pods on nodes of which the use goes up and down."""
ZONED: Final = replace(LENT, cluster=zoned.cluster, actions=zoned.crowd)
"""The same of NUMA nodes."""
SILENT: Final = replace(
    LENT, cluster=silent.cluster, actions=silent.crowd, end_s=170.0, whole_s=180.0, size=Size(nodes=3, singles=140)
)
"""The same on nodes of which nothing is heard for a while."""
DIVIDED: Final = replace(
    SHORT,
    size=Size(nodes=3, singles=80),
    cluster=dividing.cluster,
    actions=lending.crowd,
    replicas=with_yarn,
    faults=every(
        5.0,
        dividing.yarn_away,
        dividing.yarn_unheard,
        dividing.yarn_anew,
        trouble.killed("yarn-operator"),
        trouble.paused("yarn-operator", 0.5, 9.0),
        trouble.killed("slo-manager"),
        trouble.paused(WRITER, 0.5, 3.0),
        late("yarn-operator:berth_slo", 3.0),
        late("yarn-operator:berth_state", 3.0),
        trouble.slow_bus(0.5, 4.0),
    ),
    injector=dividing.YarnSaboteur,
)
"""Kubernetes and YARN fill what nodes lend, at once, and one does not hear of the other at once."""
YARN_AWAY: Final = replace(
    DIVIDED,
    end_s=45.0,
    whole_s=50.0,
    size=Size(nodes=3, singles=30),
    faults=every(9.0, dividing.yarn_away),
)
"""The pair of ResourceManagers takes turns."""
RECORDED: Final = replace(
    SHORT,
    replicas=with_recorder,
    faults=every(
        5.0,
        recording.full,
        recording.torn,
        recording.gone,
        trouble.killed(recording.RECORDER),
        trouble.killed(SOLVER),
        late("placement-solver:berth_state", 3.0),
        late("recorder:berth_state", 3.0),
        late("recorder:berth_ledger", 3.0),
    ),
    injector=recording.RecordingSaboteur,
    constants={"berth.placement_solver.origins.TOLD_AGAIN_S": 10.0},
)
"""What two solvers read is kept, and their plans are made again at the end."""
RECORDED_AND_KILLED: Final = replace(
    RECORDED,
    faults=every(5.0, recording.torn, trouble.killed(recording.RECORDER), trouble.killed(recording.RECORDER)),
    constants={},
)
"""A recorder that is killed again and again, while solvers tell what they go by now and then."""
RECORDED_THINKING: Final = replace(
    RECORDED,
    size=Size(nodes=1, gangs=11),
    actions=users.contended,
    replicas=lambda rng: {SOLVER: 1, recording.RECORDER: 1},
    faults=every(15.0, recording.full, recording.gone),
    environ={SOLVER: {"BERTH_PRICES_FROM": "100000"}},
    constants={**RECORDED.constants, "tests.simulation.optimiser.TAKES_S": (0.1, 0.5)},
)
"""A solver whose optimiser thinks most of the time, and a recorder."""
RECORDED_ANSWERS: Final = replace(
    RECORDED_THINKING,
    cluster=users.uneven,
    actions=users.contended_gangs,
    faults=every(15.0, trouble.nothing),
)
"""The same with two nodes, of which the optimiser fills whichever it likes first."""
PRESSED: Final = replace(
    SHORT,
    size=Size(nodes=3, singles=60),
    cluster=pressing.cluster,
    actions=pressing.crowd,
    replicas=with_slo_manager,
    faults=every(6.0, trouble.nothing, trouble.killed("slo-manager"), trouble.killed(WRITER)),
    injector=pressing.Pressing,
)
"""Agents of nodes that ask for more pods than it takes."""
PROFILED: Final = replace(
    SHORT,
    size=Size(nodes=4, singles=70),
    cluster=profiled.cluster,
    actions=profiled.crowd,
    replicas=with_webhooks,
    faults=every(20.0, trouble.nothing, trouble.killed(WRITER), trouble.killed(SOLVER)),
    injector=webhooks.Hooked,
    environ={name: {"BERTH_WEBHOOK_URL": webhooks.URL} for name in (WRITER, WEBHOOK)},
    constants=webhooks.in_place(),
)
"""Pods that profiles select, while the webhook is there, away, hung, slow, or not trusted."""
GATHERED: Final = replace(SHORT, size=Size(nodes=8, singles=0), actions=gathers.crowd)
"""Gangs that must lie in one domain of the network."""
RESERVED_MEMBERS: Final = replace(
    SHORT,
    size=Size(nodes=2, gangs=24),
    actions=reserved_members.crowd,
    replicas=watched_solvers,
    faults=every(7.0, trouble.nothing, trouble.nothing, trouble.killed(SOLVER), trouble.killed(WRITER)),
)
"""Gangs of which some members are Reservations."""
GARBLED: Final = replace(SHORT, faults=every(5.0, trouble.garbled))
LATE_STATE: Final = replace(
    SHORT,
    replicas=two_solvers,
    faults=every(4.0, late(f"{SOLVER}:berth_state", 3.0), trouble.killed(SOLVER)),
)
SOLVERS_COME_AND_GO: Final = replace(
    SHORT,
    size=Size(nodes=6, singles=140),
    replicas=two_solvers,
    faults=every(7.0, trouble.alone, trouble.alone, trouble.paused(SOLVER, 7.0, 9.0)),
)
SUCCESSORS: Final = replace(
    LATE_STATE,
    size=Size(nodes=2, singles=16),
    actions=users.successors,
    faults=every(3.0, late(f"{SOLVER}:berth_state", 3.0, 8.0)),
)
SUCCESSORS_LATE: Final = replace(
    SUCCESSORS,
    replicas=one_each,
    faults=every(
        4.0, late(f"{WRITER}:berth_ledger", 2.0), trouble.slow_bus(0.5, 4.0), trouble.paused(WRITER, 0.5, 2.0)
    ),
)
HALVES: Final = replace(SHORT, size=Size(nodes=2, singles=110), replicas=two_solvers, faults=every(4.0, trouble.halves))
BINDS_AND_LOSS: Final = replace(SHORT, faults=every(12.0, trouble.slow_binds_and_loss))
LOST_BINDS: Final = replace(SHORT, faults=every(8.0, trouble.lost_binds))
WRITERS_KILLED: Final = replace(SHORT, faults=every(8.0, trouble.binds_lost_and_writer_killed))
BARRED: Final = replace(SHORT, size=Size(nodes=4, singles=60, gangs=6), faults=every(8.0, trouble.barred))
FULL: Final = replace(SHORT, size=Size(nodes=4, singles=80, gangs=4), faults=every(14.0, trouble.full))
TURNED_AWAY: Final = replace(SHORT, faults=every(8.0, trouble.turned_away))
STAGES: Final = replace(
    SHORT,
    size=Size(nodes=3, singles=50, gangs=14),
    actions=users.large_gangs,
    replicas=two_solvers,
    environ={SOLVER: {"BERTH_BATCH_MESSAGES_MAX": "8"}},
    constants={"berth.placement_solver.tidying.ABANDONED_AFTER_S": 3.0},
)
STAGES_CONTENDED: Final = replace(STAGES, faults=every(6.0, trouble.slow_bus(0.4, 6.0)))
STAGES_STOPPED: Final = replace(
    STAGES,
    size=Size(nodes=4, gangs=10),
    actions=users.larger_gangs,
    faults=every(
        6.0, trouble.slow_bus(1.5, 7.0), trouble.slow_bus(1.5, 7.0), trouble.slow_bus(1.5, 7.0), trouble.killed(SOLVER)
    ),
    constants={"berth.placement_solver.tidying.ABANDONED_AFTER_S": 0.5},
)
STAGES_OF_MANY: Final = replace(
    STAGES_STOPPED,
    size=Size(nodes=16, gangs=50),
    replicas=four_solvers,
    faults=every(6.0, trouble.slow_bus(1.5, 7.0)),
    constants={
        **STAGES_STOPPED.constants,
        "berth.placement_solver.pacing.TIDY_EVERY_S": 0.3,
        "berth.placement_solver.pacing.TIDY_BUSY_S": 0.5,
    },
)
"""Two plans have to be found abandoned at once, and the second has to end while the first is given up."""
SHRUNK_GANGS: Final = replace(
    SHORT,
    size=Size(nodes=3, gangs=25),
    actions=users.shrunk_gangs,
    faults=every(25.0, trouble.leases_fail),
)
LOSSES_OF_TWO: Final = replace(
    SHORT,
    size=Size(nodes=6, singles=105),
    actions=users.bursts,
    replicas=two_solvers,
    environ={SOLVER: {"BERTH_BATCH_PODS_MAX": "1"}},
    faults=trouble.losses(kill_after_s=None),
    end_s=95.0,
    whole_s=100.0,
)
LOSSES: Final = replace(LOSSES_OF_TWO, replicas=one_each, faults=trouble.losses(kill_after_s=(0.0, 0.3)))
LOSSES_LATER: Final = replace(LOSSES_OF_TWO, replicas=one_each, faults=trouble.losses(kill_after_s=(1.3, 2.6)))
HALVES_AND_LOSS: Final = replace(
    SHORT, size=Size(nodes=3, singles=130), faults=every(14.0, trouble.read_by_halves_after_a_loss, start_s=10.0)
)
STRANGERS: Final = replace(
    SHORT,
    size=Size(nodes=3, singles=60),
    actions=users.strangers,
    faults=every(26.0, trouble.leases_fail),
    end_s=90.0,
    whole_s=100.0,
)
FORGERS: Final = replace(SHORT, actions=users.forgers)
LATE_WRITER: Final = replace(SHORT, faults=every(4.0, late(f"{WRITER}:berth_state", 2.5)))
TWO_GROUPS: Final = replace(
    SHORT,
    size=Size(nodes=6, singles=150),
    cluster=users.shared_quota,
    actions=users.quota_users,
    replicas=two_solvers,
    faults=every(4.0, late(f"{SOLVER}:berth_ledger", 1.0)),
)
QUOTAS_LOST: Final = replace(
    TWO_GROUPS,
    size=Size(nodes=6, singles=330),
    replicas=one_each,
    faults=every(18.0, trouble.emptied_without_quotas),
)
PRICED: Final = replace(
    SHORT,
    size=Size(nodes=3, singles=150),
    replicas=two_solvers,
    faults=every(5.0, trouble.prices_lost, trouble.prices_late, trouble.nothing),
    environ={SOLVER: {"BERTH_PRICES_FROM": "8"}},
    constants={"tests.simulation.optimiser.NONSENSE": 0.4},
)
"""The price maker is slow, killed, and lies; its tables are lost, late and full."""
PRICED_AND_KILLED: Final = replace(
    PRICED, faults=every(6.0, trouble.prices_lost, trouble.prices_late, trouble.killed(SOLVER))
)
STATE_REMADE: Final = replace(SHORT, faults=every(5.0, trouble.state_remade))
LED_ANEW: Final = replace(SHORT, faults=every(8.0, trouble.led_anew))
LOWERED: Final = replace(
    SHORT,
    size=Size(nodes=6, singles=84),
    cluster=users.one_quota,
    actions=users.lowered_quota,
    replicas=two_solvers,
    faults=trouble.quota_late,
    end_s=100.0,
    whole_s=105.0,
)
APPEARING: Final = replace(LOWERED, cluster=users.open_quota, actions=users.appearing_limit)
MOVED: Final = replace(
    LOWERED, size=Size(nodes=6, singles=126), cluster=moving.two_parents, actions=moving.who_moves_first
)
JOINED: Final = replace(MOVED, actions=moving.who_stays_first)
API_TROUBLE: Final = replace(
    SHORT,
    size=Size(nodes=1, singles=40),
    actions=users.queuers,
    faults=every(5.0, trouble.api_trouble),
    end_s=40.0,
    whole_s=45.0,
)
BOOKINGS: Final = replace(SHORT, size=Size(nodes=2, singles=50, reservations=12), actions=bookings)
WANDERING: Final = replace(
    SHORT,
    size=Size(nodes=6, singles=170),
    cluster=shares.cluster,
    actions=shares.crowd,
    replicas=two_solvers,
    faults=every(9.0, late(f"{SOLVER}:berth_quota", 1.0), trouble.nothing),
)
"""Groups that share by runtime, and one that moves between parents and trees with what runs in it."""
SWITCHED: Final = replace(
    WANDERING,
    replicas=watched_solvers,
    environ={
        "quota-manager": {
            "BERTH_QUOTA_IGNORE_OVERHEAD": "true",
            "BERTH_QUOTA_IGNORE_TERMINATING": "true",
            "BERTH_QUOTA_CHECK_PARENTS": "true",
            "BERTH_QUOTA_DEFAULT_GROUP": "false",
        }
    },
)
"""The same, with the switches of quota-manager that change who pays and how much."""
CAPPED: Final = replace(
    WANDERING,
    replicas=watched_solvers,
    environ={"quota-manager": {"BERTH_QUOTA_RUNTIME": "false", "BERTH_QUOTA_SCALE_MIN": "false"}},
)
"""The same, where the max alone is the limit."""
POOLED: Final = replace(SHORT, size=Size(nodes=6, singles=40), actions=users.pooled)
SEATED: Final = replace(
    SHORT,
    size=Size(nodes=3, singles=90),
    actions=hooked.seated,
    replicas=two_solvers,
    faults=every(
        6.0,
        late(f"{SOLVER}:berth_quota", 2.0),
        late(f"{SOLVER}:berth_ledger", 1.5),
        trouble.killed(SOLVER),
        trouble.killed("quota-manager"),
    ),
    environ=hooked.ENVIRON,
    constants={"berth.quota_manager.hooks.loading.entry_points": hooked.installed},
)
"""Pods that cost what a hook says."""
WINDOWS: Final = replace(
    SHORT,
    end_s=130.0,
    whole_s=140.0,
    size=Size(nodes=3, singles=40, reservations=3, end_s=130.0),
    actions=windows,
    faults=every(17.0, trouble.clock_jumps),
)
RESTRICTED: Final = replace(BOOKINGS, actions=restricted)
BORROWED: Final = replace(BOOKINGS, actions=borrowed)
BUSY_BOOKING: Final = replace(BOOKINGS, size=Size(nodes=1, singles=120), actions=busy)
LENT_AND_LOSS: Final = replace(
    BOOKINGS,
    size=Size(nodes=2, singles=20, reservations=10),
    actions=lent_for_long,
    faults=every(9.0, trouble.ledger_remade, trouble.killed(SOLVER), start_s=12.0),
)
"""Capacity is lent while LEDGER is lost."""
DISPLACING: Final = replace(
    BOOKINGS,
    end_s=130.0,
    whole_s=140.0,
    size=Size(nodes=2, singles=90, reservations=16, end_s=130.0),
    actions=displacing,
    faults=every(11.0, trouble.killed(WRITER), trouble.paused(WRITER, 0.5, 3.0), trouble.killed(SOLVER)),
)
"""Pods leave for Reservations, while that is interrupted."""
GROWN: Final = replace(
    BOOKINGS,
    size=Size(nodes=2, singles=40, reservations=6),
    actions=grown,
    faults=every(9.0, trouble.killed(WRITER), trouble.paused(WRITER, 0.5, 4.0), trouble.killed(SOLVER)),
)
"""Reservations grow where they are, while that is interrupted."""
GROWN_AND_LOSS: Final = replace(
    GROWN, faults=every(9.0, trouble.ledger_remade, trouble.paused(WRITER, 0.5, 4.0), start_s=6.0)
)
TAKEN_OVER: Final = replace(
    BOOKINGS,
    size=Size(nodes=2, singles=30, reservations=16),
    actions=taken_over,
    faults=every(9.0, trouble.killed(WRITER), trouble.paused(WRITER, 1.0, 4.0), trouble.killed(SOLVER)),
)
HANDED_OVER: Final = replace(
    BOOKINGS,
    size=Size(nodes=2, singles=30, reservations=16),
    actions=handed_over,
    faults=every(9.0, trouble.killed(WRITER), trouble.paused(WRITER, 1.0, 4.0), trouble.killed(SOLVER)),
)
WEAR: Final = replace(SHORT, actions=users.wear)
WEAR_AND_LOSS: Final = replace(SHORT, actions=users.worn_out, faults=every(14.0, trouble.inventory_lost, start_s=18.0))
SLOW_WRITER: Final = replace(SHORT, faults=every(8.0, trouble.paused(WRITER, 2.0, 6.0)))
MATES: Final = replace(SHORT, size=Size(nodes=6, mates=24), actions=mates.alone)
MATES_LEAVING: Final = replace(MATES, size=Size(nodes=6, mates=30), actions=mates.leaving)
MATES_OF_FOUR: Final = replace(
    MATES,
    size=Size(nodes=6, mates=40),
    actions=mates.at_once,
    replicas=four_solvers,
    faults=every(4.0, late(f"{SOLVER}:berth_ledger", 1.0)),
)
VOLUMES: Final = replace(
    SHORT,
    size=Size(nodes=4, claims=45),
    cluster=volumes.cluster,
    actions=volumes.alone,
    faults=every(7.0, trouble.killed(WRITER), trouble.paused(WRITER, 1.0, 4.0), trouble.killed(SOLVER)),
    controllers=ControllerSettings(provision_failures=0.3),
)
"""Claims and their users, while steps are interrupted."""
VOLUMES_LOCAL: Final = replace(VOLUMES, size=Size(nodes=6, claims=45), actions=volumes.local)
EVICTIONS: Final = replace(
    SHORT,
    size=Size(nodes=2, gangs=1, sets=7, singles=60),
    cluster=owned.cluster,
    actions=owned.crowded,
    faults=every(9.0, trouble.killed(WRITER), trouble.paused(WRITER, 0.5, 3.0), trouble.killed(SOLVER)),
)
"""Pods leave for others, while that is interrupted."""
GANG_EVICTIONS: Final = replace(
    EVICTIONS,
    size=Size(nodes=4, gangs=16, sets=3, singles=30, ranked=0.3, ranked_gangs=0.6),
    cluster=RunProfile.cluster,
    actions=RunProfile.actions,
)
"""Gangs leave for others, and others for gangs, while that is interrupted."""
GATHERED_EVICTIONS: Final = replace(
    EVICTIONS,
    size=Size(nodes=6, singles=0, sets=12, gangs=8),
    cluster=owned.cluster,
    actions=gathers.displacing,
)
"""Others leave for gangs that must lie in one domain of the network, while that is interrupted."""
EVICTIONS_HELD_UP: Final = replace(
    EVICTIONS,
    size=Size(nodes=2, sets=7, singles=24),
    actions=owned.fickle,
    faults=trouble.evictions_held_up,
    end_s=110.0,
    whole_s=120.0,
)
HALVED_GANGS: Final = replace(EVICTIONS, size=Size(nodes=2, sets=7, gangs=24), actions=owned.halved)
"""Others leave for gangs that lose a member meanwhile."""
LENT_BACK: Final = replace(
    EVICTIONS,
    size=Size(nodes=3, sets=6, gangs=3, singles=18),
    cluster=lenders.cluster,
    actions=lenders.actions,
    environ={SOLVER: {"BERTH_SCHEDULER_CONFIG_FILE": lenders.CONFIGURATION}},
    end_s=100.0,
    whole_s=110.0,
)
"""What quota groups have lent comes back, on demand and by the timer, while that is interrupted."""
EVICTIONS_AND_LOSS: Final = replace(
    EVICTIONS,
    size=Size(nodes=4, singles=60),
    actions=owned.lingering,
    faults=every(9.0, trouble.ledger_remade, start_s=12.0),
)
GROUPS_MADE_ANEW: Final = replace(
    SHORT,
    size=Size(nodes=1, singles=10),
    actions=users.strategy,
    replicas=with_an_agent,
    faults=every(20.0, trouble.group_made_anew),
)
"""A node whose best-effort group kubelet makes again, while a strategy is in force."""
LET_GO: Final = replace(
    GROUPS_MADE_ANEW,
    size=Size(nodes=1, singles=4),
    actions=users.strategy_withdrawn,
    faults=every(3.0, trouble.killed("node-qos-enforcer"), trouble.nothing),
    end_s=40.0,
    whole_s=45.0,
    settle_s=45.0,
)
"""A strategy comes and goes, while the agent that carries it out is killed."""
CHANGING_NODES: Final = replace(
    SHORT,
    size=Size(nodes=4, singles=260, strangers=7),
    cluster=inside.cluster,
    actions=inside.draw,
    replicas=two_solvers_and_an_agent,
    machine=BusyMachine,
    faults=every(
        5.0,
        trouble.nothing,
        trouble.killed(SOLVER),
        trouble.killed(WRITER),
        late(f"{SOLVER}:berth_inventory", 3.0),
        late(f"{SOLVER}:berth_ledger", 1.5),
    ),
)
"""What is within nodes is given out, while it changes."""
CHANGING_NODES_HELD_UP: Final = replace(
    CHANGING_NODES,
    replicas=watched_solvers_and_an_agent,
    faults=every(
        14.0, trouble.leases_fail, trouble.inventory_lost, trouble.lost_binds, trouble.paused(WRITER, 3.0, 15.0)
    ),
)
"""The same, while binds or figures are late."""
CHANGING_NODES_AND_LOSS: Final = replace(
    CHANGING_NODES,
    cluster=inside.whole_cluster,
    actions=inside.lasting,
    replicas=two_solvers,
    faults=every(14.0, trouble.inventory_lost, start_s=18.0),
)
"""CPUs go early and come back late, while what is known of them is lost."""
CHANGING_CARDS: Final = replace(
    CHANGING_NODES,
    size=Size(nodes=3, singles=80),
    cluster=inside.whole_cluster,
    actions=inside.cards_alone,
    replicas=two_solvers,
)
"""Cards alone, in pairs where their node has it so."""
PICKED_CARDS: Final = replace(
    CHANGING_NODES,
    size=Size(nodes=3, singles=90, strangers=3),
    cluster=picking.cluster,
    actions=picking.actions,
    replicas=watched_solvers_and_an_agent,
    machine=picking.PickingMachine,
)
"""Cards by number where kubelet picks them, and by minor beside them."""
