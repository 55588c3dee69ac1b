"""The rules E1 to E11 as switches, as `tests.model.rules` has those of the placement transaction.

`SENTENCES` repeats the table of docs/evictions.md word for word; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

SENTENCES = {
    "E1": "A nomination lies under the decision key of its pod. The pod is decided only when every victim has left "
    "or is leaving (then only on capacity that is free), and nominated anew only when all have left or the "
    "nomination was given up. A victim that a late view does not show yet has not left",
    "E2": "A nomination holds capacity and quota against pods of equal and lower priority, and stamps its accounts. "
    "A higher pod takes what it holds only by displacing the nomination in the same batch (its key is "
    "rewritten or deleted, expecting its sequence), and only when its other victims have left or are leaving. "
    "A pod takes its own nominated capacity first, then what nobody is nominated to",
    "E3": "Before the first mark the beneficiary is patched, guarded, with its nomination. A nomination that STATE "
    "alone shows holds capacity all the same, until its pod is bound, gone or decided, has let the plan go, "
    "or could not have it: its solver finds that out, and has the note taken back with the refusal, since for "
    "everybody else it holds until then",
    "E4": "Each victim is patched with the mark, guarded by uid and version. When all are marked the writer looks: "
    "at its Lease, at the epoch and the nomination at the leader, at the beneficiary at the API server, "
    "whether the capacity is still fit. It asks the API server, without effect, whether all deletions would be "
    "let through. Then each deletion names the uid and the version that carries the mark, and the writer looks "
    "again before each; a gang leaves whole",
    "E5": "Who gives up takes the marks back, guarded, before the beneficiary is planned anew. The active writer "
    "takes back every mark whose nomination is neither in LEDGER nor current, or was let go",
    "E6": "While a victim that is marked for a beneficiary is leaving, the beneficiary gets no other victims, "
    "unless the plan was let go",
    "E7": "A victim that is still there when its grace period and the patience are over, whoever began its "
    "deletion, that is protected, whose mark or deletion is refused, or whose budget refuses for as long, ends the "
    "nomination; and so it ends when nobody is in its way any more and it is not placed for as long (a quota that "
    "sank, a pod that may not be beside it), whether LEDGER holds it or STATE alone shows it: by a patch of the "
    "beneficiary that raises `attempt`, takes the note back, "
    "lists the plan in `let-go`, and in `refused` whose mark or deletion was refused. Those are no victims for it for "
    "a while. A Reservation as beneficiary of pods is patched twice, its note first, and planned anew only on a view "
    "of pods complete through that moment",
    "E8": "For a gang evictions begin only when every member's nomination is there and current, every place still "
    "fit, every victim still evictable, and the budgets allow all of them. All are marked, then the look, "
    "then the deletions",
    "E9": "A member of a strict gang that would fall below its minimum is evicted with its whole gang, all of which "
    "are victims of the plan and stamp the gang's account; above it, singly. A Reservation that is a member "
    "counts, and stays, so its gang does not leave whole. A gang that has grown since is judged again",
    "E10": "A victim's priority is strictly lower than the beneficiary's, so a chain of displacements ends; for the "
    "sake of quota it may be otherwise, as [there](#quota-reclaim) said. A "
    'protected pod is no victim: labelled `quota.scheduling.koordinator.sh/preemptible: "false"` or '
    '`scheduling.koordinator.sh/disable-preemptible: "true"`, or a mirror pod (`libs/rules`, `why_protected`)',
    "E11": "The Reservation of a migration takes no user before its pod leaves, and does not expire while a mark "
    "stands. It is given up only when the mark was taken back",
}


def _switch(rule: str) -> bool:
    """A part of a rule, in force unless a case takes it away."""
    return field(default=True, metadata={"rule": rule})


@dataclass(frozen=True)
class Rules:
    """Which rules are in force. What each switch means when it is off is said beside it."""

    one_key: bool = _switch("E1")
    """Off: a nomination has a key of its own, and does not meet the decision of its pod."""
    kept: bool = _switch("E1")
    """Off: the beneficiary is decided or nominated anew although victims may still be evicted for it."""
    victims_basis: bool = _switch("E1")
    """Off: a victim that a late view does not show yet counts as gone."""
    holds: bool = _switch("E2")
    """Off: a nomination holds no capacity."""
    stamps: bool = _switch("E2")
    """Off: a nomination stamps no accounts."""
    displaced: bool = _switch("E2")
    """Off: a higher pod takes nominated capacity and leaves the nomination as it is."""
    own_first: bool = _switch("E2")
    """Off: a pod takes the nominated place of a lower one although its own is free."""
    quota_held: bool = _switch("E2")
    """Off: a nomination holds no quota."""
    noted: bool = _switch("E3")
    """Off: Kubernetes does not know of the nomination, none counts but the ledger's."""
    noted_ends: bool = _switch("E3")
    """Off: what Kubernetes remembers counts for ever."""
    marked: bool = _switch("E4")
    """Off: a victim is deleted by the version that was judged, without a mark."""
    look: bool = _switch("E4")
    """Off: after the mark nobody looks again."""
    all_marked: bool = _switch("E4")
    """Off: a victim is deleted as soon as it is marked itself."""
    asked: bool = _switch("E4")
    """Off: nobody asks whether all deletions would be let through, before the first one."""
    version: bool = _switch("E4")
    """Off: a deletion names no version."""
    uid: bool = _switch("E4")
    """Off: victims are judged, marked and deleted by name."""
    spared: bool = _switch("E5")
    """Off: a beneficiary is planned anew while victims are still marked for it."""
    unmarked: bool = _switch("E5")
    """Off: nobody takes a mark back."""
    one_set: bool = _switch("E6")
    """Off: a beneficiary gets new victims while the last ones are leaving."""
    let_go: bool = _switch("E7")
    """Off: nobody gives a nomination up whose victims never end."""
    plan_let_go: bool = _switch("E7")
    """Off: only victims that carry the mark count as staying."""
    state_let_go: bool = _switch("E7")
    """Off: only nominations that the ledger still has are given up."""
    other_kind: bool = _switch("E7")
    """Off: a Reservation is given up in one patch, and planned anew on any view of the pods."""
    refused: bool = _switch("E7")
    """Off: nobody remembers whose deletion was refused."""
    whole: bool = _switch("E8")
    """Off: evictions for a gang begin with the members at hand."""
    works: bool = _switch("E8")
    """Off: nobody looks whether the places are still fit."""
    budgets: bool = _switch("E8")
    """Off: nobody looks whether the budgets allow all victims."""
    gang_whole: bool = _switch("E9")
    """Off: one member of a victim gang is evicted, the others stay."""
    gang_stamp: bool = _switch("E9")
    """Off: plans that place or evict members of a gang do not collide."""
    strict: bool = _switch("E10")
    """Off: a pod of equal priority is a victim, too."""
    closed: bool = _switch("E11")
    """Off: a migration's Reservation takes users before its pod leaves."""
    no_clock: bool = _switch("E11")
    """Off: a migration's Reservation expires by itself."""
    migration_marked: bool = _switch("E4")
    """Off: the pod of a migration is evicted without a mark."""
    migration_look: bool = _switch("E4")
    """Off: nobody looks at the Reservation after the mark."""
    migration_spared: bool = _switch("E5")
    """Off: the Reservation is given up before the mark is taken back."""
    lease: bool = _switch("R10")
    """Off: a loss of the ledger is not noticed."""


SWITCHES = {each.name: str(each.metadata["rule"]) for each in fields(Rules)}
"""Which rule each switch is a part of; R10 is one of docs/transaction.md."""


def without(*switches: str) -> Rules:
    """All rules but these parts."""
    return Rules(**dict.fromkeys(switches, False))


def missing(rules: Rules) -> set[str]:
    """The rules of which a part is taken away."""
    return {rule for switch, rule in SWITCHES.items() if not getattr(rules, switch)}
