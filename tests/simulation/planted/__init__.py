"""Bugs that can be planted, to see that the simulation finds them: each rule dropped, and mistakes that others made.

A bug is a patch of functions of the code under test, in force for the length of a `with` block. The code itself knows
nothing of them.
"""

from __future__ import annotations

from typing import Final

from tests.simulation.planted import (
    in_admission,
    in_members,
    in_pools,
    in_reclaim,
    in_reservations,
    in_yarn,
    run_profiles,
)
from tests.simulation.planted import in_agent as agent
from tests.simulation.planted import in_bound as bound
from tests.simulation.planted import in_evictions as evictions
from tests.simulation.planted import in_gathers as gathers
from tests.simulation.planted import in_hooks as hooks
from tests.simulation.planted import in_inside as inside
from tests.simulation.planted import in_inventory as inventory
from tests.simulation.planted import in_lending as lending
from tests.simulation.planted import in_managers as managers
from tests.simulation.planted import in_peers as peers
from tests.simulation.planted import in_pressure as pressure
from tests.simulation.planted import in_prices as prices
from tests.simulation.planted import in_recorder as recorder
from tests.simulation.planted import in_solver as solver
from tests.simulation.planted import in_volumes as volumes
from tests.simulation.planted import in_writer as writer
from tests.simulation.planted.bug import Bug

PLANTED: Final[dict[str, Bug]] = {
    "R1 accounts": Bug(
        "a batch expects nothing of its accounts", lambda: solver.unexpected("account"), run_profiles.LATE_LEDGER
    ),
    "R1 decisions": Bug(
        "a batch expects nothing of its decisions",
        lambda: solver.unexpected("decision"),
        run_profiles.SOLVERS_COME_AND_GO,
    ),
    "R1 stages": Bug(
        "a later stage of a plan expects what was read after it was planned",
        solver.stages_expect_what_is_read,
        run_profiles.STAGES_CONTENDED,
    ),
    "R2": Bug("accounts come before decisions", solver.accounts_first, run_profiles.HALVES),
    "R3 bound": Bug("a decision is deleted once its pod is bound", solver.deleted_when_bound, run_profiles.SHORT),
    "R3 uid": Bug(
        "a decision for another uid of the name is replaced before it is settled",
        solver.replaced_by_another_uid,
        run_profiles.SUCCESSORS,
    ),
    "R4": Bug("what a view does not show is gone", solver.absent_is_gone, run_profiles.LATE_STATE),
    "R5 version": Bug("a bind names no resource version", writer.bind_without_version, run_profiles.BINDS_AND_LOSS),
    "R5 uid": Bug(
        "a bind names no uid, its decision is judged by name", writer.bind_by_name, run_profiles.SUCCESSORS_LATE
    ),
    "R6": Bug("a bind without an answer is taken for failed", writer.no_answer_is_failure, run_profiles.LOST_BINDS),
    "a page believed": Bug(
        "a page of a proxy is taken for the API server's refusal",
        writer.a_page_is_a_refusal,
        run_profiles.TURNED_AWAY,
    ),
    "notes left": Bug("a bind leaves allocation notes that nobody decided", writer.notes_left, run_profiles.FORGERS),
    "R7": Bug(
        "a decision counts as soon as it is read", writer.begun_before_the_last_word, run_profiles.STAGES_CONTENDED
    ),
    "R8 chain": Bug(
        "a plan entry is written whatever was there", lambda: solver.unexpected("plan"), run_profiles.STAGES_STOPPED
    ),
    "R8 abort": Bug(
        "a plan is given up by dropping its decisions", solver.given_up_by_deleting, run_profiles.STAGES_STOPPED
    ),
    "R8 ended": Bug(
        "a plan that was found abandoned is given up although it has ended since",
        solver.ended_is_given_up,
        run_profiles.STAGES_OF_MANY,
    ),
    "R9": Bug("members of a strict gang are begun as they come", writer.gangs_as_they_come, run_profiles.SHRUNK_GANGS),
    "R10 record": Bug("the Lease remembers no plan, no loss is noticed", writer.nothing_recorded, run_profiles.LOSSES),
    "R10 leader": Bug("no look at the leader before a wave", writer.leader_not_asked, run_profiles.LOSSES_LATER),
    "R10 older": Bug(
        "plans before the one in the Lease are taken for carried out",
        writer.older_taken_for_done,
        run_profiles.WRITERS_KILLED,
    ),
    "R11": Bug("no last check before a bind", writer.no_last_check, run_profiles.STRANGERS),
    "R12": Bug("a new epoch is planned in on any view", solver.planned_on_any_view, run_profiles.HALVES_AND_LOSS),
    "R13": Bug(
        "a decision is judged on a view older than its solver's", writer.judged_on_any_view, run_profiles.LATE_WRITER
    ),
    "R14 ancestors": Bug("a pod charges its own group alone", solver.own_group_alone, run_profiles.TWO_GROUPS),
    "R14 line": Bug("a group without a limit has no account", solver.limited_alone, run_profiles.APPEARING),
    "R14 revisions": Bug("an account's revision is not compared", solver.no_revisions, run_profiles.LOWERED),
    "R14 moves": Bug("a move says nothing to the rest of its tree", solver.moves_unsaid, run_profiles.MOVED),
    "R14 joined": Bug(
        "who charges a line leaves a group that has joined it", solver.joined_uncharged, run_profiles.JOINED
    ),
    "quota unread": Bug("pods are placed before QUOTA shows who pays", solver.quotas_unread, run_profiles.QUOTAS_LOST),
    "another stream": Bug(
        "an owner goes on in a stream that is not the one it read", solver.any_stream, run_profiles.STATE_REMADE
    ),
    "leader unwatched": Bug(
        "nobody looks at the leader of a stream while the consumer is there",
        solver.leader_unwatched,
        run_profiles.LED_ANEW,
    ),
    "eras unread": Bug(
        "what another era of a bucket's owner has written is read without a comparison",
        solver.eras_unread,
        run_profiles.ERAS,
    ),
    "R15": Bug("an entry that cannot be read says nothing", solver.garbage_is_nothing, run_profiles.GARBLED),
    "held once": Bug(
        "a node agent takes what it wrote for what holds the group", agent.held_once, run_profiles.GROUPS_MADE_ANEW
    ),
    "left behind": Bug("a node agent leaves what nothing wants any more", agent.left_behind, run_profiles.LET_GO),
    "ack first": Bug(
        "a message is acknowledged before its effect", writer.acked_before_effect, run_profiles.API_TROUBLE
    ),
    "timer": Bug("a decision lapses after 2.5 s without a bind", solver.released_on_a_timer, run_profiles.SLOW_WRITER),
    "standby": Bug(
        "a solver passes over updates of other solvers' bound pods",
        solver.standby_forgets_updates,
        run_profiles.LOSSES_OF_TWO,
    ),
    "follower read": Bug(
        "a replica that still holds what was lost is read in place of the leader",
        writer.follower_read_trusted,
        run_profiles.LOSSES,
    ),
    "terminating": Bug("a pod that is terminating holds nothing", solver.terminating_holds_nothing, run_profiles.SHORT),
    "staged gang": Bug(
        "a staged gang is begun while its plan is open", writer.open_gang_begun, run_profiles.STAGES_CONTENDED
    ),
    "health": Bug("every card is healthy", inventory.all_healthy, run_profiles.WEAR),
    "old inventory": Bug(
        "an inventory older than its Device is planned with",
        solver.inventories_as_they_come,
        run_profiles.WEAR_AND_LOSS,
    ),
    "cordon": Bug("cordons are not looked at", solver.cordons_unread, run_profiles.WEAR),
    "swallowed": Bug("a deletion is swallowed by cluster-watcher", managers.deletions_swallowed, run_profiles.SHORT),
    "never retried": Bug("a refused pod is never tried again", solver.never_retried, run_profiles.SHORT),
    "reserved half": Bug(
        "half the amounts of a Reservation are written", writer.half_of_what_was_reserved, run_profiles.BOOKINGS
    ),
    "reserved elsewhere": Bug(
        "a Reservation is bound to another node", writer.reserved_on_another_node, run_profiles.BOOKINGS
    ),
    "restricted": Bug(
        "users of a Restricted Reservation take the rest from the node",
        solver.restricted_as_aligned,
        run_profiles.RESTRICTED,
    ),
    "taken over again": Bug(
        "who draws on a Reservation is taken over by another one", solver.taken_over_again, run_profiles.TAKEN_OVER
    ),
    "taken over unnoted": Bug(
        "a Reservation is there before those whom it takes over note it",
        writer.taken_over_unnoted,
        run_profiles.TAKEN_OVER,
    ),
    "handed to anybody": Bug(
        "a placeholder leaves for whoever waits", solver.handed_over_to_anybody, run_profiles.HANDED_OVER
    ),
    "lent": Bug("who is protected borrows what is reserved and idle", solver.lent_to_anybody, run_profiles.BORROWED),
    "never expires": Bug("Reservations never expire", managers.never_expires, run_profiles.BOOKINGS),
    "expires early": Bug(
        "Reservations expire after a third of their time", managers.expires_early, run_profiles.BOOKINGS
    ),
    "window named anew": Bug(
        "each look at a window names its Reservation anew", managers.windows_named_anew, run_profiles.WINDOWS
    ),
    "rewritten": Bug(
        "the devices of a bound pod are written anew, with half their amounts",
        bound.devices_rewritten,
        run_profiles.SHORT,
    ),
    "ended": Bug(
        "a placement has ended because the view of it begins anew",
        writer.ended_because_the_view_begins_anew,
        run_profiles.STATE_REMADE,
    ),
    "fence": Bug("an epoch is raised without raising attempts", writer.no_fence, run_profiles.BINDS_AND_LOSS),
    "peers tried": Bug(
        "what a plan has placed itself counts for none of its other pods", peers.trials_uncounted, run_profiles.MATES
    ),
    "peers terminating": Bug(
        "pods that are terminating count for the spread of others",
        peers.terminating_counted,
        run_profiles.MATES_LEAVING,
    ),
    "peers guarded": Bug(
        "the anti-affinity of pods that are there keeps nobody away", peers.guards_ignored, run_profiles.MATES
    ),
    "peers first": Bug("each pod may be the first of its group", peers.always_first, run_profiles.MATES),
    "peers relabelled": Bug(
        "pods count by the labels that they were placed with", peers.relabelled_unseen, run_profiles.MATES
    ),
    "peers account": Bug(
        "plans whose pods must be apart or spread share no account", peers.no_account, run_profiles.MATES_OF_FOUR
    ),
    "volumes shared": Bug("a claim for one pod alone is used by two", volumes.claims_shared, run_profiles.VOLUMES),
    "volumes kept twice": Bug(
        "a volume that is kept for a claim is kept for another one", volumes.kept_for_two, run_profiles.VOLUMES_LOCAL
    ),
    "volumes elsewhere": Bug(
        "volumes are reached from every node", volumes.reached_from_everywhere, run_profiles.VOLUMES
    ),
    "volumes unlimited": Bug("a node takes as many volumes as there are", volumes.no_limits, run_profiles.VOLUMES),
    "volumes unbound": Bug(
        "a pod is bound before its steps are done", volumes.bound_before_its_steps, run_profiles.VOLUMES
    ),
    "CPUs twice": Bug(
        "a CPU is free that somebody has as his own", inside.cpus_given_twice, run_profiles.CHANGING_NODES
    ),
    "functions twice": Bug(
        "a virtual function is free that somebody has", inside.functions_given_twice, run_profiles.CHANGING_NODES
    ),
    "NUMA nodes": Bug("what is held of a NUMA node is free", inside.numa_nodes_overfull, run_profiles.CHANGING_NODES),
    "reserved CPUs": Bug(
        "CPUs are for all that are kept from pods", inside.reserved_given, run_profiles.CHANGING_NODES
    ),
    "partitions": Bug(
        "any cards are given out together, whatever partitions their node has",
        inside.partitions_broken,
        run_profiles.CHANGING_CARDS,
    ),
    "needs evict twice": Bug("who leaves already covers nothing", pressure.covered_twice, run_profiles.PRESSED),
    "profiles every call": Bug(
        "each call for a pod counts its profiles anew", in_admission.every_call_counts, run_profiles.PROFILED
    ),
    "pods blocked": Bug(
        "who cannot be asked about is not created", in_admission.nobody_without_it, run_profiles.PROFILED
    ),
    "converted in part": Bug(
        "the first container alone is converted", in_admission.first_container_alone, run_profiles.PROFILED
    ),
    "missed untold": Bug(
        "nobody looks for pods without their profile", in_admission.missed_untold, run_profiles.PROFILED
    ),
    "YARN at once": Bug("YARN grows before Kubernetes has shrunk", in_yarn.grows_at_once, run_profiles.DIVIDED),
    "charged and offered": Bug(
        "what YARN is charged with is offered as well", in_yarn.charged_and_offered, run_profiles.DIVIDED
    ),
    "YARN away": Bug(
        "while no ResourceManager answers YARN has nothing", in_yarn.away_is_empty, run_profiles.YARN_AWAY
    ),
    "unlisted": Bug(
        "a NodeManager that is not listed yet has nothing", in_yarn.unlisted_has_nothing, run_profiles.YARN_AWAY
    ),
    "offers ignored": Bug("nodes lend what they show, whatever is offered", lending.by_status_alone, run_profiles.LENT),
    "zone offers ignored": Bug(
        "NUMA nodes lend what they show, whatever is offered there", lending.zones_by_topology_alone, run_profiles.ZONED
    ),
    "old reports": Bug("a report of what a node uses counts for ever", lending.old_as_new, run_profiles.SILENT),
    "clocks of nodes": Bug(
        "a report is as old as its node's clock says", lending.by_clocks_of_nodes, run_profiles.SILENT
    ),
    "any write": Bug(
        "an object that is written again is taken for a new report", lending.any_write_is_news, run_profiles.SILENT
    ),
    "scattered": Bug("members of a gang may lie anywhere", gathers.lie_anywhere, run_profiles.GATHERED),
    "reserved alone": Bug(
        "a Reservation of a gang does not wait for the others", in_members.go_alone, run_profiles.RESERVED_MEMBERS
    ),
    "beyond the min": Bug(
        "others leave for one whose group's min promises it nothing", in_reclaim.beyond_the_min, run_profiles.LENT_BACK
    ),
    "given by anybody": Bug(
        "groups give what they use within their runtime", in_reclaim.from_anybody, run_profiles.LENT_BACK
    ),
    "pool ignored": Bug("pods of a tree go to nodes outside its pool", in_pools.pool_ignored, run_profiles.POOLED),
    "share unread": Bug(
        "a group may use its max, whatever its runtime is", in_pools.share_unread, run_profiles.WANDERING
    ),
    "moved alone": Bug(
        "a group that moves leaves what runs in it where it was", in_pools.moved_alone, run_profiles.WANDERING
    ),
    "parents unchecked": Bug(
        "the runtimes of groups above bind nobody, although they are to",
        in_pools.parents_unchecked,
        run_profiles.SWITCHED,
    ),
    "surcharge uncounted": Bug(
        "what hooks charge counts against no max", hooks.surcharge_uncounted, run_profiles.SEATED
    ),
    "surcharge unwritten": Bug(
        "a bind does not say what hooks have charged", hooks.surcharge_unwritten, run_profiles.SEATED
    ),
    "unread": Bug("a record that cannot be read is taken for none", inside.unread_is_none, run_profiles.CHANGING_NODES),
    "swapped": Bug(
        "a card is swapped under its minor, and nobody looks at its name",
        inside.swaps_unseen,
        run_profiles.CHANGING_CARDS,
    ),
    "old topology": Bug(
        "a topology older than its object is planned with",
        inside.topologies_as_they_come,
        run_profiles.CHANGING_NODES_AND_LOSS,
    ),
    "locks kept": Bug(
        "the lock of a node stays its pod's for five minutes", inside.locks_kept, run_profiles.CHANGING_CARDS
    ),
    "cards picked": Bug(
        "cards are free of which kubelet says that it has picked them",
        inside.named_are_free,
        run_profiles.PICKED_CARDS,
    ),
    "numbers unseen": Bug(
        "only the last check knows that nobody knows which cards kubelet has picked",
        inside.numbers_unseen,
        run_profiles.PICKED_CARDS,
    ),
    "numbers given": Bug(
        "cards go by minor beside those of which nobody knows which kubelet has picked",
        inside.numbers_given,
        run_profiles.PICKED_CARDS,
    ),
    "E2": Bug("a nomination holds nothing", evictions.freed_for_anybody, run_profiles.EVICTIONS),
    "E4 look": Bug(
        "nobody looks whether the beneficiary waits before its victims are deleted",
        evictions.no_look,
        run_profiles.EVICTIONS,
    ),
    "E4 version": Bug(
        "a deletion names no version that carries the mark", evictions.deleted_by_uid, run_profiles.EVICTIONS_HELD_UP
    ),
    "E5": Bug("no mark is taken back", evictions.marks_stay, run_profiles.EVICTIONS_HELD_UP),
    "E6": Bug(
        "a pod gets other victims while its own are leaving", evictions.second_set, run_profiles.EVICTIONS_AND_LOSS
    ),
    "E8": Bug(
        "others leave for a gang that has lost a member", evictions.half_a_gang_is_served, run_profiles.HALVED_GANGS
    ),
    "E9": Bug("half a gang is made to leave", evictions.half_a_gang_leaves, run_profiles.GANG_EVICTIONS),
    "E10 equals": Bug("pods of equal priority leave", evictions.equals_leave, run_profiles.EVICTIONS),
    "E10 protected": Bug("protected pods leave", evictions.protected_leave, run_profiles.EVICTIONS),
    "absurd prices": Bug(
        "prices hold that make no sense, as the price maker says them", prices.absurd_are_taken, run_profiles.PRICED
    ),
    "absurd bounds": Bug(
        "bounds are told that cannot be true, as the optimiser says them",
        prices.absurd_bounds_are_told,
        run_profiles.PRICED,
    ),
    "prices lost": Bug(
        "a table of prices that is lost is not written again", prices.lost_tables_stay_lost, run_profiles.PRICED
    ),
    "prices named anew": Bug(
        "a version of prices is given out again", prices.versions_are_reused, run_profiles.PRICED_AND_KILLED
    ),
    "gap unsaid": Bug(
        "what could not be recorded is left out, as if it had not been", recorder.gaps_are_unsaid, run_profiles.RECORDED
    ),
    "one run": Bug(
        "recorder goes on after its start with what it had recorded", recorder.all_is_one_run, run_profiles.RECORDED
    ),
    "missed unsaid": Bug("what recorder missed it does not note", recorder.missed_is_unsaid, run_profiles.RECORDED),
    "never recorded again": Bug(
        "recorder that could not write does not try again", recorder.never_again, run_profiles.RECORDED_THINKING
    ),
    "kept untold": Bug(
        "plans do not say for whom capacity was kept", recorder.kept_is_untold, run_profiles.RECORDED_THINKING
    ),
    "answers untold": Bug(
        "plans do not say what the optimiser answered", recorder.answers_are_untold, run_profiles.RECORDED_ANSWERS
    ),
    "grounds forgotten": Bug(
        "recorder takes nothing from its segments when it starts",
        recorder.grounds_are_forgotten,
        run_profiles.RECORDED_AND_KILLED,
    ),
    "told at once": Bug(
        "the status of a Reservation is written whenever it is another one",
        in_reservations.told_at_once,
        run_profiles.BUSY_BOOKING,
    ),
    "grown blindly": Bug(
        "a Reservation grows whatever its node has free", in_reservations.grown_blindly, run_profiles.GROWN
    ),
    "growth unclaimed": Bug(
        "what a Reservation grows to is given away until its status shows it",
        in_reservations.growth_unclaimed,
        run_profiles.GROWN,
    ),
    "growth named first": Bug(
        "a Reservation names the plan by which it grows before it has grown",
        in_reservations.growth_named_first,
        run_profiles.GROWN,
    ),
    "loans unwritten": Bug(
        "a bind does not say what its pod borrows", in_reservations.loans_unwritten, run_profiles.LENT_AND_LOSS
    ),
    "loans forgotten": Bug(
        "only the decision of a pod says what it borrows", in_reservations.loans_forgotten, run_profiles.LENT_AND_LOSS
    ),
    "displaced for nobody": Bug(
        "pods leave for Reservations of which nobody has said that they may",
        in_reservations.anybody_leaves,
        run_profiles.DISPLACING,
    ),
}
