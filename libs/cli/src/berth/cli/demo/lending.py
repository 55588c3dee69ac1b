"""The act of two teams that share seats: one has borrowed what the other is promised, and gives it back."""

from __future__ import annotations

from berth.cli.demo.scenario import Scenario
from berth.cli.demo.seats import BORROWER, NODE, OWNER, SEATS
from berth.cli.demo.stage import Stage
from berth.cli.errors import EXIT_BAD, CliError
from berth.contracts import buckets, names, subjects


async def give_back(stage: Stage, plot: Scenario) -> bool:
    """A group takes back what another one has borrowed of its min."""
    of = plot.lending
    await stage.create([of.node, *of.quotas])
    for quota in of.quotas:
        name = quota["metadata"]["name"]
        if not await stage.published(buckets.QUOTA, subjects.quota_key("", name)):
            raise CliError(f"quota {name} is not counted yet: quota-manager or cluster-watcher is behind", EXIT_BAD)
    names_ = await stage.create(of.guests)
    guests = {name: stage.watch.expect(name) for name in names_}
    await stage.until(lambda: all(fate.node for fate in guests.values()))
    placed = sum(bool(fate.node) for fate in guests.values())
    stage.tell("pods", BORROWER, f"placed {placed}/{SEATS}", f"{NODE}: a seat of their own, and one of {OWNER}'s")
    (mine,) = await stage.create([of.owner])
    owner = stage.watch.expect(mine)
    await stage.until(lambda: bool(owner.node))
    left = [name for name, fate in guests.items() if names.ANNOTATION_EVICTED_FOR in fate.annotations]
    for name in left:
        stage.tell("pod", name.partition("/")[2], "left", f"{NODE}, for {mine}: quota {BORROWER} gives back")
    stage.tell("pod", mine.partition("/")[2], "placed" if owner.node else "waiting", owner.node or owner.refusal)
    return owner.node == NODE and len(left) == 1
