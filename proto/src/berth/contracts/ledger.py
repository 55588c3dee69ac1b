"""LEDGER: decisions, account stamps, plans and the epoch. The rules of their life are in docs/transaction.md."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from berth.contracts.base import Integer, Message, Part
from berth.contracts.round import Round

MINOR_DIGITS_MAX: Final = 18


class Grant(Part, frozen=True, kw_only=True):
    """One thing within a node that a holder was given, and how much of it, by resource name.

    `kind` says what it is, `id` which one of its node. What is held whole or not at all has the amount 1 of `count`.

    | kind | id | amounts | extension |
    | --- | --- | --- | --- |
    | `gpu`, `rdma`, `fpga` | the minor, as a decimal | what is taken of it | the size of a virtual NPU; `PCIeLevel` |
    | `vf` | bus address of a virtual function | `count` | its device, as `rdma/0` |
    | `cpu` | id of a logical CPU | `count` | how its holder keeps others off: its exclusive policy |
    | `zone` | id of a NUMA node | what is taken of its cpu, memory and hugepages | |

    `PCIeLevel`: nobody else has a device of the kind on the PCIe root of this one.
    """

    kind: str
    id: str
    amounts: dict[str, Integer] = {}
    extension: str = ""

    @property
    def minor(self) -> int:
        """Of a device; -1 where the id is none."""
        return int(self.id) if self.id.isdecimal() and len(self.id) <= MINOR_DIGITS_MAX else -1


class DeviceGrant(Part, frozen=True, kw_only=True):
    """A device minor and how much of it: a grant in the form of 0.1."""

    kind: str
    minor: Integer
    amounts: dict[str, Integer] = {}


class Allocation(Part, frozen=True, kw_only=True):
    """What a decision takes on its node: amounts by resource name, and grants.

    `devices` repeats those of the kinds `gpu`, `rdma` and `fpga` for readers of 0.1. Where there are no `grants`, it is
    all that was granted (`berth.contracts.grants`).
    """

    amounts: dict[str, Integer] = {}
    devices: list[DeviceGrant] = []
    grants: list[Grant] = []


class GangDomain(Part, frozen=True, kw_only=True):
    """The one domain of the network that all members of a gang have to lie in: its layer, and its names from the top
    down. `label_keys` are, for each of these layers, the labels of which the first with a value names a node's domain;
    `is_lowest`: a node without one of the last layer is a domain by itself, named as it is."""

    layer: str
    path: list[str]
    label_keys: list[list[str]]
    is_lowest: bool = False


class Loan(Part, frozen=True, kw_only=True):
    """What a pod borrows of the idle capacity of a Reservation: amounts, and what is granted one by one.

    Its owners make the pod leave when they come.
    """

    reservation: str
    reservation_uid: str
    amounts: dict[str, Integer] = {}
    grants: list[Grant] = []


class GangRef(Part, frozen=True, kw_only=True):
    """The gang that a member was decided with: its group id, how many members the plan holds, and its mode.

    `domain`: where the member has to lie with the others of its gang; None where nothing is said.
    """

    name: str
    size: Integer
    strict: bool = True
    domain: GangDomain | None = None


class Step(Part, frozen=True, kw_only=True):
    """What must have happened on the API before the bind. `action` says what, of claim and volume, or of a pod:

    - `bind-volume`: the PersistentVolume is kept for the claim (`spec.claimRef`), and the claim is bound to it;
    - `provision-volume`: the claim names the decision's node (annotation `volume.kubernetes.io/selected-node`), and the
      volume that its StorageClass makes for it is bound to it;
    - `take-over`: the pod, which runs on the decision's node, notes the decided Reservation as the one that it draws
      on. It is a user of that Reservation from the decision on, until the decision is settled;
    - `let-go`: the pod no longer notes it. Left over of a decision that was withdrawn.
    """

    action: str
    claim: str = ""
    claim_uid: str = ""
    volume: str = ""
    volume_uid: str = ""
    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""


class Victim(Part, frozen=True, kw_only=True):
    """An object that has to leave `node` for a nomination. `version` is its resource version as the solver saw it."""

    kind: str = "pod"
    namespace: str
    name: str
    uid: str
    version: Integer
    node: str


class Decision(Message, frozen=True, kw_only=True, tag="decision.set.v1"):
    """A claim: this pod (by uid and attempt) goes to this node and holds this capacity until it is gone.

    `kind` is `pod`, or `reservation` for a Reservation (whose namespace is empty), or `quota` for a group that gives
    back what it uses beyond its runtime: nobody waits then, it takes nothing and has no node, and stands until its
    victims leave. `accounts` are the accounts it
    charges, without the epoch's prefix. `pod_version` is the resource version of the object as the solver saw it,
    `basis` the version through which the solver's view of its kind was complete, `other_basis` that of the other of the
    two kinds, pods and Reservations (0: not said). `annotations` go into the object in the same call that binds it.
    `node_uid` is the uid of the node that was chosen (empty: not said): a node that registers anew under the name is
    another one. `before` are the steps that come before the bind, in order, and `bind_timeout_s` how many seconds they
    may take (None: not said, what cluster-writer is set to holds). `nominates`: it waits, nothing is bound under it,
    and `victims` are who has to leave for its whole plan (docs/evictions.md), for `eviction_reason`, which becomes that
    of their condition DisruptionTarget. `unasked` names those of
    NodeUnschedulable, TaintToleration and NodeResourcesFit that the pod's profile switches off, the last also where it
    ignores some resource: what is checked later leaves them out, too.
    `loans` are what it borrows of Reservations that it is no owner of. `offer` is the revision of the `NodeOffer` that
    it counted by, where it asks for batch or mid resources; 0: it does not, or nobody offers.
    `grows` is the plan under which its Reservation is placed already, on the same node: it is to hold these amounts
    instead of what it holds. Empty: it is not placed yet.
    `prices` is the version of the table (PRICE) by which its solver chose the node; 0: by constants.
    `quota` is `tree/group` of the charged group, `surcharge` what it is charged beyond the request, `reservation` the
    name of the one it draws on. `host_ports` are written `address/protocol/port`, with `0.0.0.0` for every address.
    `seen_ms` and `decided_ms` are unix times in milliseconds, for latency only; `trace` is the W3C traceparent of the
    pod's way, empty if unsampled.
    """

    plan: str
    namespace: str
    name: str
    uid: str
    attempt: Integer
    node: str
    pod_version: Integer
    basis: Integer
    other_basis: Integer = 0
    kind: str = "pod"
    allocation: Allocation = Allocation()
    accounts: list[str] = []
    gang: GangRef | None = None
    quota: str = ""
    non_preemptible: bool = False
    reservation: str = ""
    reservation_uid: str = ""
    host_ports: list[str] = []
    annotations: dict[str, str] = {}
    seen_ms: Integer = 0
    decided_ms: Integer = 0
    trace: str = ""
    node_uid: str = ""
    before: list[Step] = []
    nominates: bool = False
    victims: list[Victim] = []
    unasked: list[str] = []
    bind_timeout_s: Integer | None = None
    eviction_reason: str = ""
    loans: list[Loan] = []
    surcharge: dict[str, Integer] = {}
    offer: Integer = 0
    grows: str = ""
    prices: Integer = 0


class AccountStamp(Message, frozen=True, kw_only=True, tag="accountstamp.set.v1"):
    """The newest plan that charged an account, and the newest QUOTA or RESERVATION revision used on it."""

    plan: str
    revision: Integer = 0


class PlanStatus(StrEnum):
    """The life of a plan: open (a staged gang), then committed or aborted, both final."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Plan(Message, frozen=True, kw_only=True, tag="plan.set.v1"):
    """A plan entry. `stage` counts batches from 1; `decisions` is how many decisions the plan holds so far.

    `round`: what the plan was made from, in the entry of its last stage; None: that is not said.
    """

    id: str
    status: PlanStatus
    stage: Integer = 1
    decisions: Integer = 0
    solver: str = ""
    round: Round | None = None


class Epoch(Message, frozen=True, kw_only=True, tag="epoch.set.v1"):
    """The current epoch and the version of pods that a view must have reached before its owner plans in it."""

    epoch: Integer
    pods_version: Integer = 0
    reservations_version: Integer = 0


LedgerEntry = Decision | AccountStamp | Plan | Epoch
