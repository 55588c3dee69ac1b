"""The rules R1 to R19 as switches: each can be taken away, alone or with others.

`SENTENCES` repeats the table of docs/transaction.md word for word; a test compares them. A rule that says
several things has a switch for each, since each of them has a trace of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

SENTENCES = {
    "R1": "Each message of a batch carries the expected last sequence of its key: accounts, decisions, plan entry; "
    "0 for a new key",
    "R2": "In a batch, decisions come before accounts, the plan entry is last",
    "R3": "A decision stays until it is settled; being bound is not enough. Only a solver that sees it settled may "
    "overwrite or delete its key, expecting its sequence, whichever uid it was for; but for a Reservation that grows "
    "(R18)",
    "R4": '"Gone" is judged only on a view complete through `pod_version`',
    "R5": "A bind carries the uid **and** the resource version of the pod that was judged",
    "R6": "A decision is given up by a patch of the pod that raises `attempt`, guarded by uid and resource version, "
    "and by nothing else",
    "R7": "A plan counts once its entry says `committed`. Before, nobody binds; its decisions hold capacity",
    "R8": "Each write of a plan entry expects the one before it. Giving up a plan *is* writing `aborted`, where the "
    "entry that was read is `open`, or there is none: what has ended stays so",
    "R9": "A strict gang is begun only when every member's decision is in LEDGER and current, and its pod can "
    "still be bound, and, where its decision names a domain of the network, its node lies in it by its "
    "labels; else those there are withdrawn, and whatever else the plan holds begins. Once a member is "
    "bound under the plan, it has begun and goes on",
    "R10": "Before a wave, cluster-writer asks the leader for the epoch, the plan the Lease names and the new plan. "
    "All must agree with the Lease and be committed; then the new plan goes into the Lease, guarded. A disagreement "
    "raises the epoch; a refused Lease write means another writer is active. The next wave waits for no bind of this "
    "one: what the Lease names, and what came before it, may be under way",
    "R11": "No other unsettled decision that this writer has read, and no bound pod of its view, holds what the "
    "decision takes. A grant or host port that two decisions it knows of hold means that the ledger has lost "
    "something: raise the epoch. Any other clash withdraws the decision",
    "R12": "In a new epoch a solver plans only on a view complete through the versions that the epoch entry names",
    "R13": "cluster-writer judges a decision only on a view complete through its `basis`, and through its "
    "`other_basis` of the other kind (pods, Reservations)",
    "R14": "A pod charges its group and every group above it, whatever they limit. An account names the newest "
    "revision used on it, that of its tree included, and a solver behind that revision catches up before it plans. Who "
    "first charges a line that a group has joined charges that group, too, where it is and in the trees that it has "
    "left; its move is a revision of all of them",
    "R15": "An entry of the epoch that cannot be read is lost: its reader keeps what it knew of its key, and "
    "plans nothing until cluster-writer has raised the epoch",
    "R16": "Who follows a bucket compares what it has read with what the stream's leader has: when it makes its "
    "consumer, and every few seconds while that delivers",
    "R17": "A step's request names the uid and the version of the claim, volume or pod that was judged. The bind is "
    "sent on a view that shows what the steps are for: each claim bound, to the volume that was decided or made for "
    "it. What a step has done belongs to the claim and is not undone: who plans the pod next takes it as it is",
    "R18": "A Reservation grows by a decision that names the plan which the object shows, written over one that was "
    "carried out. It is carried out while the object shows that plan and asks for as much: the amounts first, the plan "
    "behind them. Until the object shows the new plan its claim is the larger of both. Who raises the epoch fences "
    "what asks for more",
    "R19": "A pod that a Reservation takes over is its user from that decision on, in everybody's book, until it is "
    "settled. The pod's note is written before the Reservation is Available, and counts for nothing while that is on "
    "no node",
}


def _switch(rule: str) -> bool:
    """A part of a rule, in force unless a case takes it away."""
    return field(default=True, metadata={"rule": rule})


@dataclass(frozen=True)
class Rules:
    """Which rules are in force. What each switch means when it is off is said beside it."""

    account_sequences: bool = _switch("R1")
    """Off: a batch expects nothing of its accounts."""
    decision_sequences: bool = _switch("R1")
    """Off: a batch expects nothing of its decision keys."""
    stage_sequences: bool = _switch("R1")
    """Off: a later stage of a plan expects what was read after it was planned."""
    decisions_first: bool = _switch("R2")
    """Off: accounts come before decisions."""
    held_until_settled: bool = _switch("R3")
    """Off: a decision may be deleted once its pod is seen bound."""
    any_uid: bool = _switch("R3")
    """Off: a decision for another uid of the same name may be replaced before it is settled."""
    gone_needs_completeness: bool = _switch("R4")
    """Off: what a view does not show is gone."""
    bind_version: bool = _switch("R5")
    """Off: a bind names no resource version."""
    bind_uid: bool = _switch("R5")
    """Off: a bind names no uid, and its decision is judged by the pod's name."""
    only_the_pod_gives_up: bool = _switch("R6")
    """Off: an event tells of a failure, and a bind without an answer is one."""
    last_word: bool = _switch("R7")
    """Off: a decision counts as soon as it is read."""
    plan_chain: bool = _switch("R8")
    """Off: a plan entry is written whatever was there before."""
    abort_is_written: bool = _switch("R8")
    """Off: after a while the decisions of an unfinished plan are dropped, and its entry is left as it is."""
    ended_stays: bool = _switch("R8")
    """Off: a plan that was read as committed is given up, too."""
    gangs_whole: bool = _switch("R9")
    """Off: members of a strict gang are begun as they come."""
    recorded: bool = _switch("R10")
    """Off: there is no Lease. Every writer acts, and no loss is noticed."""
    leader_look: bool = _switch("R10")
    """Off: a plan goes into the Lease without a look at the leader, and at whether the one before was read."""
    older_under_way: bool = _switch("R10")
    """Off: who takes over takes the plan in the Lease, and those before it, for carried out."""
    last_check: bool = _switch("R11")
    """Off: a decision is bound no matter who else holds its capacity."""
    epoch_view: bool = _switch("R12")
    """Off: a new epoch is planned in at once."""
    basis: bool = _switch("R13")
    """Off: a decision is judged, and a gang given up, on any view."""
    late_member: bool = _switch("R13")
    """Off: a gang is given up although the view does not show yet what the solver saw of a member."""
    clash_at_end: bool = _switch("R13")
    """Off: a clash counts on a view that may still show a former holder."""
    ancestors: bool = _switch("R14")
    """Off: a pod charges its own group alone."""
    revisions: bool = _switch("R14")
    """Off: accounts name no revision."""
    whole_line: bool = _switch("R14")
    """Off: a group that limits nothing has no account."""
    tree_revision: bool = _switch("R14")
    """Off: a move is known of the group that moves alone."""
    joined: bool = _switch("R14")
    """Off: plans on the line that a group has joined, and on the one that it has left, share no account."""
    former_account: bool = _switch("R14")
    """Off: the same where the two are in different trees."""
    unreadable_blocks: bool = _switch("R15")
    """Off: a solver plans although the ledger holds an entry that it cannot read."""
    unreadable_is_loss: bool = _switch("R15")
    """Off: no epoch is raised for it."""
    leader_compared: bool = _switch("R16")
    """Off: who had read what LEDGER lost keeps it, and reads on behind it, if at all."""
    step_version: bool = _switch("R17")
    """Off: a step's request names no resource version."""
    steps_seen: bool = _switch("R17")
    """Off: a pod is bound once its steps have been asked for."""
    steps_stay: bool = _switch("R17")
    """Off: a solver plans as if nothing had been kept for a claim."""
    growth_follows: bool = _switch("R18")
    """Off: a decision on a Reservation is carried out whenever the object holds less."""
    growth_shown: bool = _switch("R18")
    """Off: a decision is written over one that may still be carried out."""
    growth_held: bool = _switch("R18")
    """Off: what is to grow holds what the object shows."""
    amounts_first: bool = _switch("R18")
    """Off: the object shows the new plan before the amounts."""
    growth_asked: bool = _switch("R18")
    """Off: it is carried out whatever the object asks for by now."""
    growth_fenced: bool = _switch("R18")
    """Off: an epoch fences what is unbound alone."""
    taken_at_once: bool = _switch("R19")
    """Off: a pod is a user once it notes its Reservation."""
    noted_first: bool = _switch("R19")
    """Off: the Reservation is Available before the pod notes it."""
    note_powerless: bool = _switch("R19")
    """Off: a note counts wherever its Reservation is."""


SWITCHES = {each.name: str(each.metadata["rule"]) for each in fields(Rules)}
"""Which rule each switch is a part of."""


def without(*switches: str) -> Rules:
    """All rules but these parts."""
    return Rules(**dict.fromkeys(switches, False))


def missing(rules: Rules) -> set[str]:
    """The rules of which a part is taken away."""
    return {rule for switch, rule in SWITCHES.items() if not getattr(rules, switch)}
