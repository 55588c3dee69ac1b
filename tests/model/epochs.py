"""cluster-writer raises the epoch: the Lease first, then the fences, the epoch entry last."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.knowledge import Knowledge
from tests.model.state import ACTIVE, EPOCH, RAISING, STANDBY, Message, State, Step, Writer


def begin(know: Knowledge, state: State, me: int) -> Step:
    """The Lease names a new epoch and no plan, so that no other writer begins anything."""
    epoch = max(state.lease.epoch, state.writers[me].ledger.epoch) + 1
    fences = tuple(name for name in know.names if state.pods[name])
    writer = state.writers[me]._replace(mode=RAISING, epoch=epoch, look=None, fences=fences)
    was_lost = state.left("tail") < know.world.tail or state.left("full") < know.world.full
    bad = state.bad or ("" if was_lost else "an epoch raised without a loss")
    after = state._replace(lease=state.lease._replace(holder=me, plan=0, epoch=epoch), bad=bad)
    return Step("writer raises the epoch", (me,), after.become(me, writer))


def go_on(know: Knowledge, state: State, me: int) -> Iterator[Step]:
    """The attempt of every unbound pod is raised: no bind judged before can land. Then the entry is written, with the
    newest version of a pod that is there; an epoch never goes back."""
    writer = state.writers[me]
    if writer.fences:
        name = writer.fences[0]
        pod = state.pods[name]
        after = state.store(name, pod.uid, pod.attempt + 1) if pod and pod.slot < 0 else state
        yield Step("writer fences", (me, name), after.become(me, writer._replace(fences=writer.fences[1:])))
    elif know.fold(state.ledger).epoch < writer.epoch:
        version = max((pod.version for pod in state.pods if pod), default=0)
        entry = Message(EPOCH, 0, writer.epoch, pods_version=version)
        after = state._replace(ledger=(*state.ledger, entry))
        yield Step("writer writes the epoch", (me,), after.become(me, writer._replace(mode=ACTIVE)))
    else:
        yield Step("writer finds the Lease lost", (me,), state.become(me, stand_by(writer)))


def stand_by(writer: Writer) -> Writer:
    """It begins nothing any more; what it has begun goes on."""
    return writer._replace(mode=STANDBY, look=None, fences=())
