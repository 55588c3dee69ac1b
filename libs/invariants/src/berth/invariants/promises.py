"""The promises by name: what is judged anywhere in this package, and what a violation of it is called."""

from __future__ import annotations

from typing import Final, NamedTuple


class Promise(NamedTuple):
    """`name` as in docs/guarantees.md, `title` for people and file names, `sentence` what must hold."""

    name: str
    title: str
    sentence: str


_ALL: Final = (
    Promise("I0", "all-readable", "Everything that is checked could be read."),
    Promise("I1", "device-given-once", "No device is given out beyond a whole."),
    Promise("I1b", "node-not-overfull", "No node holds more than it offers."),
    Promise("I1c", "device-used-once", "No node reports a device in use beyond a whole."),
    Promise("I1d", "device-used-as-given", "No node reports a device in use by a pod that was not given it."),
    Promise("I1e", "device-fit-for-use", "No device is given out that is broken, or not there, and known to be."),
    Promise("I1f", "node-fit-for-use", "No pod is given a node that is gone, or keeps it off, and is known to."),
    Promise("I1g", "device-as-named", "No device is given out as one that was there before, and known to be another."),
    Promise("I2", "quota-within-max", "No quota group holds more than its max, at any level."),
    Promise(
        "I31", "share-as-stamped", "No quota group uses more than its runtime at the revision that its plan names."
    ),
    Promise("I35", "lent-comes-back", "Who leaves for quota leaves a group over its runtime, for one within its min."),
    Promise("I2b", "non-preemptible-within-min", "Non-preemptible pods of a quota group hold no more than its min."),
    Promise("I3", "gang-whole-or-absent", "A strict gang is on nodes with all members that it needs, or with none."),
    Promise("I4", "decision-ends-once", "Every decision comes to one end: bound, gone or withdrawn."),
    Promise("I5", "bound-as-decided", "Every pod of Berth is bound once, as it was decided, and under a plan."),
    Promise(
        "I6", "capacity-freed-on-proof", "A decision leaves the ledger only when its pod is gone or it was given up."
    ),
    Promise("I7", "same-log-same-state", "The ledger folds to one state, read twice, anew, or compacted."),
    Promise("I8", "rebuilt-equals", "Rebuilt state shows the placements, charges and reservations of the cluster."),
    Promise("I10", "reserved-for-owners", "Reserved capacity is given to owners of the reservation only."),
    Promise("I10b", "reserved-stays-free", "What is reserved and not yet used stays free."),
    Promise("I11", "victims-have-a-beneficiary", "Whoever is evicted is named by a plan, for a pod that waits for it."),
    Promise("I11b", "victims-are-lower", "Whoever is evicted is of lower priority than what it is evicted for."),
    Promise("I11c", "nominations-end", "Each nomination and each mark comes to its end."),
    Promise(
        "I11d",
        "freed-capacity-for-its-heir",
        "What was left for a pod goes to it, to a member of its gang, or to a pod of higher priority.",
    ),
    Promise("I11e", "protected-stay", "Nobody is evicted whom a label or a kubelet protects."),
    Promise("I11f", "gangs-left-whole", "No eviction leaves a strict gang with fewer members than it needs."),
    Promise("I11g", "one-set-of-victims", "While victims leave for a pod nobody else is made to leave for it."),
    Promise("I11h", "looked-first", "Nobody is evicted without a look, behind the mark, at the pod that waits."),
    Promise(
        "I12", "stale-writes-refused", "What a superseded writer writes is never acted upon, and nothing goes back."
    ),
    Promise("I17", "spread-kept", "No pod is placed where it breaks a hard spread constraint of its own."),
    Promise(
        "I18", "affinity-kept", "No pod is placed beside one that it must be apart from, or away from its company."
    ),
    Promise("I19", "claim-used-once", "A claim that one pod alone may use is used by one."),
    Promise("I19b", "volume-given-once", "A volume that is kept for a claim is given to no other one."),
    Promise("I20", "volume-reached", "No pod is placed where the volumes of its claims are not reached."),
    Promise("I21", "volumes-within-limit", "No node is given more volumes of a driver than it takes."),
    Promise("I22", "claims-bound-first", "A pod is bound only when its claims have their volumes."),
    Promise("I23", "cpu-given-once", "No CPU that a pod has as its own is given to another one."),
    Promise("I23b", "cpu-fit-for-use", "No CPU is given out that is not there, or kept from pods, and is known to be."),
    Promise("I24", "function-given-once", "No virtual function of a device is given to two pods."),
    Promise("I25", "numa-node-not-overfull", "No NUMA node is given out beyond what it has."),
    Promise("I32", "tree-on-its-nodes", "Whom a tree of quotas with a pool of nodes pays for is given one of these."),
    Promise("I26", "partition-whole", "Whole cards are a partition of their node where it gives out no others."),
    Promise("I27", "chip-cut-one-way", "No chip that is cut into sizes is given out in another way as well."),
    Promise(
        "I29b", "borrowed-of-idle", "Who borrows of a reservation asked for it, can leave, and takes what is idle."
    ),
    Promise("I29", "reserved-as-meant", "Who draws on a reservation matches it, and takes no more than it lets users."),
    Promise("I33", "gathered", "Members of a gang that must lie in one domain of the network do so when it begins."),
    Promise("I30", "window-made-once", "A window of a schedule has one reservation, which ends with it."),
    Promise(
        "I30b",
        "taken-over-once",
        "A pod is taken over by one reservation, which it matches and fits into, and notes it before that is there.",
    ),
    Promise("I30c", "grown-as-decided", "A reservation that is placed holds more only as a decision says."),
    Promise("I36", "lent-as-offered", "No node lends more than it offers in the revision that a decision names."),
    Promise("I42", "lent-on-news", "Nothing is lent on a report that is older than the strategy lets it be."),
    Promise(
        "I40",
        "offer-and-grant",
        "What is offered to Kubernetes and granted to YARN of a node is never more than it lends.",
    ),
    Promise(
        "I37",
        "one-eviction-per-need",
        "Nobody leaves for a node's sake whom who leaves already covers, or whom the node's strategy does not name.",
    ),
    Promise(
        "I41",
        "profiled-once",
        "What profiles change of a pod they change once and exactly, or not at all, and then that is reported.",
    ),
    Promise(
        "I34",
        "gangs-displaced-whole",
        "Nobody is left of a strict gang that is made to leave, and others begin to leave for whole gangs only.",
    ),
)
PROMISES: Final = {promise.name: promise for promise in _ALL}
