"""Questions that people ask, answered by request and reply. Never part of a decision."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem, Reason
from berth.contracts.explanation import Explanation
from berth.contracts.ledger import DeviceGrant, Grant


class WhyQuestion(Message, frozen=True, kw_only=True, tag="why.question.v1"):
    """Why is this pod where it is, or nowhere? An empty namespace asks about a Reservation.

    `kind` asks about something else than a pod: `gang`, `quota` (its `namespace` is the tree), `node`, or
    `reservations`, all of them (without a name).
    """

    namespace: str
    name: str
    kind: str = "pod"


class WhyAnswer(Message, frozen=True, kw_only=True, tag="why.answer.v1"):
    """What the answering solver knows of the pod.

    `outcome` is one of `unknown` (no such pod), `foreign` (another scheduler's), `bound`, `decided` (waiting for its
    bind), `waiting` (in the queue, a gang gathering), `refused`. `mine` says that this solver is the one that decides
    the pod, so its answer goes first. `attempts` is how many decisions for it were withdrawn.

    Of another `kind` than a pod, `outcome` is `known` or `unknown`, or for a gang as for a pod. `facts` are texts for
    people by what they are about, `pods` those concerned with what they are to it: the members of a gang, the holders
    of a node or of a Reservation, those that wait for a quota; at most 100 of them.

    `explanation` is of what was refused, as the cluster was when it was refused last. `waiting_since_ms` is since when
    it waits, unix time in milliseconds, 0 where it does not; `before` is how many of those who wait would be tried
    before it.
    """

    namespace: str
    name: str
    outcome: str
    mine: bool = False
    message: str = ""
    node: str = ""
    plan: str = ""
    gang: str = ""
    quota: str = ""
    reservation: str = ""
    devices: list[DeviceGrant] = []
    reasons: list[Reason] = []
    problems: list[Problem] = []
    attempts: Integer = 0
    kind: str = "pod"
    facts: dict[str, str] = {}
    pods: dict[str, str] = {}
    grants: list[Grant] = []
    explanation: Explanation | None = None
    waiting_since_ms: Integer = 0
    before: Integer = 0


class NodeQuestion(Message, frozen=True, kw_only=True, tag="node.question.v1"):
    """What is within this node, and who holds what of it?"""

    name: str


class Holding(Part, frozen=True, kw_only=True):
    """How much of one thing somebody holds. `holder` is `namespace/name` of a pod, or `reservation/name`.

    `extension` is that of its grant: of a card, the size that it is cut to.
    """

    holder: str
    amounts: dict[str, Integer] = {}
    extension: str = ""


class NodeFunction(Part, frozen=True, kw_only=True):
    """A virtual function, by its bus address. `holder` is empty where nobody holds it; `reported` is as of a device."""

    bus: str
    holder: str = ""
    reported: bool = True


class NodeDevice(Part, frozen=True, kw_only=True):
    """A device: its totals, and who holds how much of it.

    `reported`: INVENTORY lists it; one that is held and not listed is shown all the same. `healthy`, `reason`, `uuid`,
    `numa_node` and `pcie` are those of INVENTORY.
    """

    kind: str
    minor: Integer
    reported: bool = True
    healthy: bool = True
    uuid: str = ""
    numa_node: Integer = -1
    pcie: str = ""
    amounts: dict[str, Integer] = {}
    holdings: list[Holding] = []
    reason: str = ""
    functions: list[NodeFunction] = []


class NodePartition(Part, frozen=True, kw_only=True):
    """GPUs of a node that are given out together, by minor; the rest is as in INVENTORY."""

    minors: list[Integer]
    score: Integer = 0
    bandwidth: Integer = 0
    link: str = ""


class NodeZone(Part, frozen=True, kw_only=True):
    """A NUMA node: what it has to give by INVENTORY, what of that is free, and who was given how much of it.

    `free` counts pods that were given no NUMA node as well, in proportion to what the NUMA nodes have. Both are in the
    cpu that the node shows, which may be more than it has. `cores` are the CPUs of each of its cores.
    """

    id: Integer
    amounts: dict[str, Integer] = {}
    free: dict[str, Integer] = {}
    holdings: list[Holding] = []
    cores: list[list[Integer]] = []


class NodePod(Part, frozen=True, kw_only=True):
    """A pod, or a Reservation, that takes something of the node.

    `state` is `bound`, `decided` (its bind is in flight) or `nominated` (others have to leave for it, which `message`
    names). `cpus` are CPUs of its own as a list (`0-3,8`), `zones` the NUMA nodes that its record names.
    """

    holder: str
    state: str
    message: str = ""
    amounts: dict[str, Integer] = {}
    grants: list[Grant] = []
    cpus: str = ""
    zones: list[Integer] = []


class NodeAnswer(Message, frozen=True, kw_only=True, tag="node.answer.v1"):
    """A node as the answering solver sees it. `outcome` is `known` or `unknown`.

    `allocatable` and `free` are by resource name; of what is given out one by one `devices` says more. `own_cpus` are
    CPUs that belong to one holder, `kept_cpus` those that are given to nobody, as lists; pods that kubelet gave CPUs to
    are holders, too. `numa_policy` is the NUMA policy that holds, `cpu_manager` the policy of kubelet's CPU manager,
    `full_cores`: it admits pods with whole cores only; `cpu_ratio` is how many times its cpu the node shows.
    `partition_policy` and `partitions` are of its GPUs: `Honor` or `Prefer`, empty: it has none. `pods_left_out` counts
    those that there was no place for. `problems` name what could not be read.
    """

    name: str
    outcome: str
    message: str = ""
    ready: bool = False
    cordoned: bool = False
    taints: list[str] = []
    allocatable: dict[str, Integer] = {}
    free: dict[str, Integer] = {}
    devices: list[NodeDevice] = []
    zones: list[NodeZone] = []
    own_cpus: dict[str, str] = {}
    kept_cpus: str = ""
    pods: list[NodePod] = []
    pods_left_out: Integer = 0
    problems: list[Problem] = []
    numa_policy: str = ""
    cpu_manager: str = ""
    full_cores: bool = False
    cpu_ratio: float = 1.0
    partition_policy: str = ""
    partitions: list[NodePartition] = []


class StatusQuestion(Message, frozen=True, kw_only=True, tag="status.question.v1"):
    """How is this service? `node`: only the agent of this node is asked; empty: every instance."""

    node: str = ""


class StatusAnswer(Message, frozen=True, kw_only=True, tag="status.answer.v1"):
    """One instance of a service: `active` is false for a standby; `facts` are figures and texts for people."""

    service: str
    instance: str
    active: bool
    ready: bool
    facts: dict[str, str | Integer | float] = {}
