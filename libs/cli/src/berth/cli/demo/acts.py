"""The acts: each creates something, waits for what Berth does with it, reports it, and says whether it happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from berth.cli.demo.gathered import gathered
from berth.cli.demo.grants import grants_of, shared_minor, used_reservation
from berth.cli.demo.inside import illness, own_cpus, side_by_side
from berth.cli.demo.lending import give_back
from berth.cli.demo.overcommit import lent
from berth.cli.demo.scenario import QUOTA, ZONE, ZONES, Scenario
from berth.cli.demo.stage import Stage, key_of
from berth.cli.demo.window import window
from berth.cli.errors import EXIT_BAD, CliError
from berth.cli.load.api import path_of
from berth.contracts import buckets, names, subjects
from berth.simcluster.store.objects import Json

NODES: Final = "/api/v1/nodes"
RESERVATIONS: Final = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
SHOWN: Final = 4
BATCH_WAIT_S: Final = 30.0
POLL_S: Final = 0.1
POLLS_MAX: Final = 200


class Act(NamedTuple):
    """What is to be shown, and how."""

    promise: str
    play: Callable[[Stage, Scenario], Awaitable[bool]]


async def batch(stage: Stage, plot: Scenario) -> bool:
    """Independent pods, latency-sensitive and best-effort."""
    names_ = await stage.create(plot.batch)
    fates = await stage.settled(names_, wait_s=BATCH_WAIT_S)
    bound = [(name, fate) for name, fate in zip(names_, fates, strict=True) if fate.node]
    for name, fate in [pair for pair in bound if grants_of(*pair)][:SHOWN]:
        stage.tell("pod", name.partition("/")[2], "placed", f"{fate.node}  {_gpus(name, stage)}")
    nodes = len({fate.node for _, fate in bound})
    stage.tell("batch", f"{len(names_)} pods", f"placed {len(bound)}", f"on {nodes} nodes")
    return bool(bound) and all(fate.is_settled for fate in fates)


async def gang(stage: Stage, plot: Scenario) -> bool:
    """Members that start together or not at all."""
    names_ = await stage.create(plot.gang)
    fates = [stage.watch.expect(name) for name in names_]
    await stage.until(lambda: all(fate.node for fate in fates))
    placed = [fate for fate in fates if fate.node]
    plans = {fate.annotations.get(names.ANNOTATION_PLAN) for fate in placed}
    spread = len({fate.node for fate in placed})
    facts = f"in {len(plans)} plan on {spread} node{'s' if spread != 1 else ''}, charged to quota {QUOTA}"
    stage.tell("gang", "train-a", f"placed {len(placed)}/{len(names_)}", facts)
    return len(placed) == len(names_) and len(plans) == 1


async def shared(stage: Stage, plot: Scenario) -> bool:
    """Two pods on one GPU: a latency-sensitive one and a best-effort one."""
    await stage.settled(await stage.create(plot.shared))
    pair = shared_minor(stage.watch.fates, key_of(plot.shared[0]))
    if pair is None:
        stage.tell("GPU share", "infer", "no GPU is shared")
        return False
    one, other = pair
    stage.tell(
        "GPU share",
        one.pod.partition("/")[2],
        "placed",
        f"{one.node} gpu {one.minor}: {one.percent} % beside {other.percent} % of {other.pod.partition('/')[2]}",
    )
    return one.percent + other.percent <= 100


async def reservation(stage: Stage, plot: Scenario) -> bool:
    """Capacity is held for a job that comes later, and used by it alone."""
    await stage.create([plot.reservation])
    name = plot.reservation["metadata"]["name"]
    node = ""
    for _ in range(POLLS_MAX):
        status = (await stage.object(f"{RESERVATIONS}/{name}")).get("status") or {}
        node = status.get("nodeName", "")
        if node and status.get("phase") == "Available":
            break
        await asyncio.sleep(POLL_S)
    stage.tell("reservation", name, "available" if node else "not placed", node and f"{node} holds 1 GPU for its owner")
    (fate,) = await stage.settled(await stage.create([plot.owner]))
    used = used_reservation(fate.annotations)
    owner = plot.owner["metadata"]["name"]
    stage.tell("pod", owner, "placed" if fate.node else "waiting", f"{fate.node}  out of reservation {used or 'none'}")
    return bool(node) and fate.node == node and used == name


async def apart(stage: Stage, plot: Scenario) -> bool:
    """One of its kind in each zone; the next one has none left."""
    names_ = await stage.create(plot.apart)
    fates = dict(zip(names_, await stage.settled(names_), strict=True))
    placed = sorted(fate.node for fate in fates.values() if fate.node)
    zones = {await _zone(stage, node) for node in placed}
    stage.tell("apart", "web", f"placed {len(placed)}/{len(names_)}", f"one in each of {len(zones)} zones")
    waiting = [name for name, fate in fates.items() if not fate.node]
    said = [await _waits(stage, name.partition("/")[2], "InterPodAffinity") for name in waiting]
    return len(zones) == len(placed) == ZONES and said == [True]


async def volume(stage: Stage, plot: Scenario) -> bool:
    """A pod waits for its claim, and then gets a volume where it goes."""
    (name,) = await stage.create([plot.stored])
    (fate,) = await stage.settled([name])
    waited = await _waits(stage, name.partition("/")[2], "VolumeBinding", "VolumeRestrictions", "NodeVolumeLimits")
    await stage.create(plot.storage)
    await stage.until(lambda: bool(fate.node))
    claim = await stage.object(path_of(plot.storage[-1]) + f"/{plot.storage[-1]['metadata']['name']}")
    made = claim["spec"].get("volumeName", "")
    asked = claim["metadata"].get("annotations", {}).get(names.ANNOTATION_SELECTED_NODE, "")
    facts = f"{fate.node}, where a volume was made for claim {claim['metadata']['name']}"
    stage.tell("volume", name.partition("/")[2], "placed" if fate.node else "waiting", facts if fate.node else "")
    return waited and bool(made) and bool(fate.node) and asked == fate.node


async def preemption(stage: Stage, plot: Scenario) -> bool:
    """A full node: a pod of lower priority leaves it, and one of higher priority waits for that and gets its place."""
    await stage.create([plot.spot])
    lower = await stage.create(plot.reports)
    fates = dict(zip(lower, await stage.settled(lower), strict=True))
    # Who came before the node was seen was refused first.
    await stage.until(lambda: all(fate.node for fate in fates.values()))
    node = plot.spot["metadata"]["name"]
    stage.tell("pods", "report", f"placed {sum(fate.node == node for fate in fates.values())}/{len(lower)}", node)
    (name,) = await stage.create([plot.urgent])
    urgent = stage.watch.expect(name)
    await stage.until(lambda: bool(urgent.node) or names.ANNOTATION_NOMINATED in urgent.annotations)
    answer = await stage.why(name.partition("/")[2])
    said = answer.message if answer else ""
    stage.tell("preemption", name.partition("/")[2], "waits", "nominated")
    stage.more("because", said or "no reason")
    await stage.until(lambda: bool(urgent.node))
    left = [each for each, fate in fates.items() if names.ANNOTATION_EVICTED_FOR in fate.annotations]
    for victim in left:
        stage.tell("pod", victim.partition("/")[2], "left" if fates[victim].gone else "leaves", f"{node}, for {name}")
    stage.tell("pod", name.partition("/")[2], "placed" if urgent.node else "waiting", urgent.node)
    return urgent.node == node and len(left) == 1 and f"nominated to {node}, waiting for {left[0]}" in said


async def displacing(stage: Stage, plot: Scenario) -> bool:
    """Two full nodes: a whole job leaves them, and one of higher priority gets its places, or neither happens."""
    await stage.create(plot.field)
    lower = [stage.watch.expect(name) for name in await stage.create(plot.sweep)]
    await stage.until(lambda: all(fate.node for fate in lower))
    stage.tell("gang", "sweep", f"placed {sum(bool(fate.node) for fate in lower)}/{len(lower)}", "field")
    members = await stage.create(plot.deadline)
    fates = [stage.watch.expect(name) for name in members]
    noted = names.ANNOTATION_NOMINATED
    await stage.until(lambda: all(fate.node or noted in fate.annotations for fate in fates))
    answer = await stage.why(members[0].partition("/")[2])
    said = answer.message if answer else ""
    stage.tell("displacing", "deadline", "waits", "nominated, all of it")
    stage.more("because", said or "no reason")
    await stage.until(lambda: all(fate.node for fate in fates))
    left = [fate for fate in lower if names.ANNOTATION_EVICTED_FOR in fate.annotations]
    stage.tell("gang", "sweep", f"left {len(left)}/{len(lower)}", "for deadline")
    placed = [fate for fate in fates if fate.node]
    stage.tell("gang", "deadline", f"placed {len(placed)}/{len(fates)}", "field")
    return len(placed) == len(fates) and len(left) == len(lower) and "waiting for default/sweep-0" in said


async def over_quota(stage: Stage, plot: Scenario) -> bool:
    """There is capacity on the nodes, but not in the quota."""
    return await _refused(stage, plot.over_quota, "quota")


async def bad_input(stage: Stage, plot: Scenario) -> bool:
    """A request that nobody can mean is refused by the name of its field."""
    return await _refused(stage, plot.bad_input, "invalid", names.GPU_CORE)


async def unsupported(stage: Stage, plot: Scenario) -> bool:
    """What Berth does not do yet is refused by name, not ignored."""
    return await _refused(stage, plot.unsupported, "unsupported", "spec.resourceClaims")


async def late(stage: Stage, plot: Scenario) -> bool:
    """More work than there is capacity for: some of it waits."""
    names_ = await stage.create(plot.late)
    fates = await stage.settled(names_, wait_s=BATCH_WAIT_S)
    placed = sum(1 for fate in fates if fate.node and not fate.gone)
    waiting = sum(1 for fate in fates if not fate.node and not fate.gone)
    stage.tell("batch", f"{len(names_)} pods", f"placed {placed}", f"{waiting} wait for capacity")
    return all(fate.is_settled for fate in fates)


ACTS: Final = (
    Act("a batch of independent pods is placed", batch),
    Act("a gang is placed whole, by one plan", gang),
    Act("a gang is gathered in one domain of the network", gathered),
    Act("two pods share one GPU", shared),
    Act("a reservation is used by its owner", reservation),
    Act("what a schedule holds for its window is held against everybody else", window),
    Act("pods that keep apart are in different zones, and one too many waits", apart),
    Act("a pod gets a volume where it goes, once its claim is there", volume),
    Act("a pod of lower priority leaves for one of higher priority, which waits for it", preemption),
    Act("a job makes a whole job of lower priority leave", displacing),
    Act("a pod has CPUs to itself, whole cores of one NUMA node", own_cpus),
    Act("a pod gets a card and a virtual function of a NIC side by side", side_by_side),
    Act("a card that falls ill is given to nobody until it is well", illness),
    Act("quota that was lent comes back when its owner asks for it", give_back),
    Act("what a pod does not use is lent to batch work, and no longer once it is used", lent),
    Act("a pod over its quota is refused, with a repair", over_quota),
    Act("bad input is refused by its field", bad_input),
    Act("what is not supported is refused by name", unsupported),
    Act("every other pod is placed, or refused with a reason", late),
)


async def prepare(stage: Stage, plot: Scenario) -> None:
    """Create the quota and wait until Berth counts it. Raises CliError when that takes too long."""
    await stage.create([plot.quota])
    if not await stage.published(buckets.QUOTA, subjects.quota_key("", QUOTA)):
        raise CliError(f"quota {QUOTA} is not counted yet: quota-manager or cluster-watcher is behind", EXIT_BAD)


async def _zone(stage: Stage, node: str) -> str:
    found = await stage.object(f"{NODES}/{node}")
    return str(found["metadata"]["labels"][ZONE])


async def _waits(stage: Stage, name: str, *codes: str) -> bool:
    """Whether the pod waits for one of these constraints; what the solver says of it is reported."""
    answer = await stage.why(name)
    reason = next((each for each in answer.reasons if each.code in codes), None) if answer else None
    if answer is None or reason is None:
        stage.tell("pod", name, "no reason")
        return False
    stage.tell("pod", name, "waits", reason.code)
    stage.more("because", answer.message)
    return True


async def _refused(stage: Stage, manifest: Json, code: str, field: str = "") -> bool:
    name = manifest["metadata"]["name"]
    (fate,) = await stage.settled(await stage.create([manifest]))
    answer = await stage.why(name)
    reason = next((each for each in answer.reasons if each.code == code), None) if answer else None
    if fate.node or reason is None:
        stage.tell("pod", name, "placed" if fate.node else "no reason", fate.node)
        return False
    stage.tell("pod", name, "refused", reason.code)
    stage.more("because", reason.message)
    if reason.repair:
        stage.more("repair", reason.repair)
    return bool(reason.repair) and field in f"{reason.field} {reason.message}" and bool(fate.refusal)


def _gpus(name: str, stage: Stage) -> str:
    grants = grants_of(name, stage.watch.fates[name])
    share = f", {grants[0].percent} %" if len(grants) == 1 and grants[0].percent < 100 else ""
    return f"gpu {','.join(str(grant.minor) for grant in grants)}{share}"
