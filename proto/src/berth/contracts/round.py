"""What a plan was made from besides the values of the buckets, so that it can be made again."""

from __future__ import annotations

from berth.contracts.base import Integer, Part


class Read(Part, frozen=True, kw_only=True):
    """How far a bucket had been read: through `sequence`, but for what is `missed` of it.

    `missed` are pairs of a first and a last sequence that were replaced before they were read, since the end of the
    bucket was reached last; whoever has them all has values that the solver had not.
    """

    sequence: Integer
    missed: list[Integer] = []


class Arriving(Part, frozen=True, kw_only=True):
    """A kind of pods that arrives often: what each asks for, in thousandths of cores and percent of so many cards, and
    which part of all kinds it is."""

    cpu: Integer
    percent: Integer
    cards: Integer
    part: float


class Ground(Part, frozen=True, kw_only=True):
    """What a solver goes by for many plans that no bucket shows, or not as the solver has it.

    `id` names the content. `nodes` are the names of its nodes in the order in which it looks at them, since among nodes
    of equal cost the first is taken: one a line, compressed by zlib, in base64. Where `after` is another ground's id,
    the names are those of that one but for `renamed`, which says by name which places have another one, the last of
    them perhaps new. `schedulers`, `hand_off`, `config_map` and `preempts` are its settings, `configuration` the text
    of its KubeSchedulerConfiguration where that comes from a file, `version` that of its code. `share_sizes` and
    `share_prices` are its prices of shares of a card, `turning_over` the part of the cluster's work that leaves,
    `whole` the part of all GPUs that pods ask for who need a whole node, `arriving` the kinds of pods that count for
    what is left over, `scarcity` the prices of scarce nodes: for each place the index in `scarcities`, one byte each,
    packed like `nodes`.
    """

    id: str
    after: str = ""
    nodes: str = ""
    renamed: dict[str, Integer] = {}
    version: str = ""
    schedulers: list[str] = []
    hand_off: list[str] = []
    config_map: str = ""
    configuration: str | None = None
    preempts: bool = True
    share_sizes: list[Integer] = []
    share_prices: list[float] = []
    turning_over: float = 0.0
    scarcity: str = ""
    scarcities: list[float] = []
    whole: float = 0.0
    arriving: list[Arriving] = []


class Round(Part, frozen=True, kw_only=True):
    """What one plan was made from.

    `kind` says how: `batch`, `preemption` (who leaves for whom), `growth` of a Reservation, or `revocation`. `read`
    says how far each bucket was read, by its name without `berth_`, and `nodemetrics` for those keys of STATE when they
    are followed apart; `ended` is where the end of STATE was seen last. `streams` is equal for two plans between which
    no bucket began anew. `solvers` are those that were alive, where there was more than one. `ground` is the id of what
    held besides, which is told in full (`told`) when it is another one, and every few minutes.
    `groups` are the gang groups that were placed as such, and how many members of each gang had to be placed.
    `seed` is what was drawn by chance. `heard_s` is the newest time of the bus, where profiles ask what nodes really
    use. `besides` names what the plan went by, too, and is not told: it cannot be made again.
    """

    kind: str = "batch"
    read: dict[str, Read] = {}
    ended: Integer = 0
    streams: str = ""
    solvers: list[str] = []
    ground: str = ""
    told: Ground | None = None
    groups: dict[str, dict[str, Integer]] = {}
    seed: Integer = 0
    heard_s: float = 0.0
    besides: str = ""
