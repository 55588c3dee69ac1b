"""PRICE: what GPUs are worth by what arrives. Each placement-solver writes the table that it decides by, and no other
one; and what people ask solvers about their tables."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part
from berth.contracts.round import Arriving


class SharePrice(Part, frozen=True, kw_only=True):
    """What a share of `percent` of a card is worth, as a part of the card: what it denies to others."""

    percent: Integer
    price: float


class ScarceModel(Part, frozen=True, kw_only=True):
    """How much those ask for the cards of a model who can go to few others: as a part of these `cards`, where all that
    arrives asks for as many cards as there are."""

    model: str
    cards: Integer
    pressure: float


class Admission(Part, frozen=True, kw_only=True):
    """What `amount` more of something that is short would let in.

    `kind` is `card` (of a kind of nodes), `core` (beside such cards), `node` (an idle one of the kind) or `quota` (one
    card more for a group). `name` is the kind of nodes, as `A100 x8`, or `tree/group`. `worth` is in cards of the
    workload as it arrives, less what others lose for it; `pods` are so many of `of`, and `text` is the sentence for
    people.
    """

    kind: str
    name: str
    amount: Integer = 1
    worth: float
    pods: float
    of: str
    text: str


class PriceTable(Message, frozen=True, kw_only=True, tag="pricetable.set.v1"):
    """The prices that `solver` decides by, since `since` (unix seconds).

    `version` names them in decisions; it grows, and none is used twice: it is unix milliseconds. 0: nothing is
    known of what arrives, and constants hold. `source`: `constants` where shares are worth what they are for all
    published mixes, `duals` where the price maker has said it for this one, at `solved_at`. `duals` is what it said
    of shares of 0 to 99 percent; `shares` are those of the sizes that arrive. `turning_over` is 0 while pods only
    come, 1 where as many leave, or where cores run out before GPUs do; nodes are the fuller for it by `idle_gpu`,
    the price of eight idle GPUs beside a pod, in steps of `step`. `whole_nodes` is the part of all GPUs asked for
    by pods that need a whole one of the largest nodes, of which the part `kept_whole` is kept for them. `arriving` are
    the kinds of pods that arrive most, twelve at most, whose parts make one: idle GPUs that they cannot use are priced
    while pods turn over. `arrivals`
    is how many pods with GPUs had come, `written_at` when its owner wrote it, which it does now and then though
    nothing changes.
    """

    solver: str
    version: Integer
    since: float = 0.0
    source: str = "constants"
    shares: list[SharePrice] = []
    duals: list[float] = []
    turning_over: float = 0.0
    idle_gpu: float = 0.0
    step: float = 0.0
    whole_nodes: float = 0.0
    kept_whole: float = 0.0
    arriving: list[Arriving] = []
    scarce: list[ScarceModel] = []
    admissions: list[Admission] = []
    arrivals: Integer = 0
    solved_at: float = 0.0
    written_at: float = 0.0


class PricesQuestion(Message, frozen=True, kw_only=True, tag="prices.question.v1"):
    """Which prices do you decide by?"""


class PricesAnswer(Message, frozen=True, kw_only=True, tag="prices.answer.v1"):
    """The table of the solver that answers, and how it stands with its price maker.

    `last` is what became of the last question: `used`; `asked` while it is out; `late`, `failed` or `not ready` without
    an answer; `nan`, `negative`, `excessive`, `malformed`, `worthless` or `jump` for one that was refused, so that the
    prices before it hold; empty when none was asked. `message` says it in a sentence, `at` is when, unix seconds, and
    `took_s` how long it took. `counts` is how often each has been. `asked_from`: no question before so many arrivals.
    """

    solver: str = ""
    table: PriceTable | None = None
    last: str = ""
    message: str = ""
    at: float = 0.0
    took_s: float = 0.0
    counts: dict[str, Integer] = {}
    asked_from: Integer = 0
