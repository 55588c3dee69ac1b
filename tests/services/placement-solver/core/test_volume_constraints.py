"""The four constraints about volumes against the rules of `berth.rules`, in random worlds that change."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts.codec import encode
from berth.contracts.kube import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from berth.contracts.ledger import Step
from berth.contracts.state import (
    CSIDriver,
    CSINode,
    CSINodeDriver,
    CSIStorageCapacity,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodTemplate,
    StorageClass,
    TopologyTerm,
    VolumeAttachment,
    VolumeUse,
)
from berth.contracts.subjects import named_key, namespaced_key
from berth.placement_solver.core.constraints.node_volume_limits import NodeVolumeLimits
from berth.placement_solver.core.constraints.volume_binding import VolumeBinding, Wanted
from berth.placement_solver.core.constraints.volume_restrictions import VolumeRestrictions
from berth.placement_solver.core.constraints.volume_zone import VolumeZone
from berth.placement_solver.core.node_labels import NodeLabels
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Charge, Hypothesis, Rejection, Spec, Target, Unusable
from berth.placement_solver.core.tallies.volumes import VolumesTally
from berth.placement_solver.core.volume_fits import FreeVolumes
from berth.placement_solver.core.volumes import KINDS, NOT_READ, Volumes
from berth.rules import volume_binding, volume_conflicts, volume_limits, volume_zones
from berth.rules.storage import Mounter, StorageRejection
from berth.transaction.claims import Claim, Name

ALL = slice(None)
ZONE = "topology.kubernetes.io/zone"
BETA = "failure-domain.beta.kubernetes.io/zone"
HOSTS = ("n0", "n1", "n2", "n3")


LOCAL = StorageClass(
    name="local", version=1, provisioner=volume_binding.NO_PROVISIONER, binding_mode="WaitForFirstConsumer"
)
MADE = StorageClass(name="made", version=1, provisioner="csi", binding_mode="WaitForFirstConsumer")


def waiting(name: str, **fields: Any) -> PersistentVolumeClaim:
    fields = {"storage_class": "local", "access_modes": ["ReadWriteOnce"], "requested": 1} | fields
    return PersistentVolumeClaim(namespace="ns", name=name, uid=f"uid-{name}", version=1, **fields)


def free_volume(name: str, host: str) -> PersistentVolume:
    expression = Requirement(key="host", operator="In", values=[host])
    return PersistentVolume(
        name=name,
        uid=f"uid-{name}",
        version=1,
        capacity=1,
        access_modes=["ReadWriteOnce"],
        storage_class="local",
        phase="Available",
        node_affinity=NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[expression])]),
    )


class World:
    """Nodes, storage, pods, and the constraints over them."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.volumes = Volumes()
        self.pods: dict[Name, Pod] = {}
        self.charged: dict[tuple[Name, str], Claim] = {}
        self.tally = VolumesTally(self.nodes, self.volumes, self.pods.get)
        self.labels = NodeLabels(self.nodes)
        self.restrictions = VolumeRestrictions(self.nodes, self.volumes, self.tally)
        self.limits = NodeVolumeLimits(self.nodes, self.volumes, self.tally)
        self.zone = VolumeZone(self.labels, self.volumes)
        free = FreeVolumes(self.volumes, self.labels, self.tally)
        self.binding = VolumeBinding(self.nodes, self.labels, self.volumes, self.tally, free)

    @property
    def constraints(self) -> tuple[Any, ...]:
        return (self.restrictions, self.limits, self.zone, self.binding)

    def complete(self) -> None:
        for tracker in self.volumes.complete.values():
            tracker.marked(1, complete=True)
            tracker.end()

    def node(self, name: str, **labels: str) -> None:
        self.nodes.see_node(name, Node(name=name, uid=name, version=1, labels={"host": name} | labels))

    def see(self, each: Any) -> None:
        prefix = str(each.__struct_config__.tag).partition(".")[0]
        kind = KINDS[prefix]
        key = namespaced_key(prefix, each.namespace, each.name) if kind.is_namespaced else named_key(prefix, each.name)
        self.volumes.read(prefix, key.partition(".")[2], encode(each), deleted=False)

    def drop(self, prefix: str, name: str) -> None:
        kind = KINDS[prefix]
        key = namespaced_key(prefix, "ns", name) if kind.is_namespaced else named_key(prefix, name)
        self.volumes.read(prefix, key.partition(".")[2], b"7", deleted=True)

    def pod(self, name: str, uses: list[VolumeUse]) -> Pod:
        pod = Pod(namespace="ns", name=name, uid=f"uid-{name}", version=1, template=PodTemplate(volumes=uses))
        self.pods["ns", name] = pod
        self.tally.see(("ns", name), pod)
        return pod

    def charge(self, name: str, node: str, *before: Step) -> Claim:
        claim = Claim(name=("ns", name), uid=f"uid-{name}", node=node, amounts={}, before=before)
        self.charged[claim.name, claim.uid] = claim
        self.apply(claim, 1)
        return claim

    def apply(self, claim: Claim, sign: int) -> None:
        self.nodes.take(self.nodes.row(claim.node), {}, sign)
        pod = self.pods.get(claim.name)
        shown = pod if pod is not None and pod.uid == claim.uid else None
        self.tally.apply(Charge(claim, self.nodes.row(claim.node), shown), sign)

    def release(self, claim: Claim) -> None:
        del self.charged[claim.name, claim.uid]
        self.apply(claim, -1)

    def mounter(self, claim: Claim) -> Mounter:
        return Mounter("ns", claim.name[1], claim.uid, self.pods[claim.name].template.volumes)

    def on(self, node: str) -> list[Mounter]:
        return [self.mounter(claim) for claim in self.charged.values() if claim.node == node]

    def promises(self) -> volume_binding.Promises:
        kept: dict[str, tuple[tuple[str, str], str]] = {}
        selected: dict[tuple[str, str], str] = {}
        for claim in self.charged.values():
            for step in claim.before:
                if step.volume:
                    kept[step.volume] = (("ns", step.claim), step.claim_uid)
                else:
                    selected["ns", step.claim] = claim.node
        return volume_binding.Promises(kept, selected)

    # --- the rules, node by node -------------------------------------------------------------------------------------

    def expected(self, pod: Pod, row: int) -> dict[str, tuple[str, ...]]:
        """The reasons of each plugin for this node, worked out from nothing but the objects."""
        storage = self.volumes.objects
        mounter = Mounter("ns", pod.name, pod.uid, pod.template.volumes)
        node = self.nodes.names[row]
        labels = self.labels.of(row)
        there = self.on(node)
        found: dict[str, tuple[str, ...]] = {}

        claims = volume_conflicts.one_pod_claims(mounter, storage)
        disks = [disk for other in there for disk in other.volumes]
        used = {
            volume.claim
            for claim in self.charged.values()
            for volume in self.mounter(claim).volumes
            if volume.source == "persistentVolumeClaim"
        }
        if isinstance(claims, StorageRejection):
            found["VolumeRestrictions"] = claims.reasons
        elif volume_conflicts.any_exclusion(pod.template.volumes, disks):
            found["VolumeRestrictions"] = (volume_conflicts.REASON_DISK,)
        elif claims & used:
            found["VolumeRestrictions"] = (volume_conflicts.REASON_ONE_POD,)

        wanted = volume_limits.wanted_volumes(mounter, storage)
        csi_node = storage.csi_node(node)
        plugins = volume_limits.migrated(csi_node)
        if isinstance(wanted, StorageRejection):
            found["NodeVolumeLimits"] = wanted.reasons
        else:
            counts = dict(
                volume_limits.counted(volume_limits.attached_volumes(storage.attachments_on(node), storage), plugins)
            )
            for other in there:
                counts |= volume_limits.counted(volume_limits.held_volumes(other, storage), plugins)
            if volume_limits.exceeds(volume_limits.counted(wanted, plugins), counts, volume_limits.limits_of(csi_node)):
                found["NodeVolumeLimits"] = (volume_limits.REASON,)

        terms = volume_zones.zone_terms(mounter, storage)
        if isinstance(terms, StorageRejection):
            found["VolumeZone"] = terms.reasons
        elif not volume_zones.is_in_zone(terms, labels):
            found["VolumeZone"] = (volume_zones.REASON,)

        mine = volume_binding.claims_of(mounter, storage)
        if isinstance(mine, StorageRejection):
            found["VolumeBinding"] = mine.reasons
        else:
            choices = volume_binding.choose(mine, node, labels, storage, self.promises())
            if choices.reasons:
                found["VolumeBinding"] = choices.reasons
        return found

    def check(self, pod: Pod) -> None:
        spec = Spec(("ns", pod.name), "ns", pod.uid, pod.template)
        rows = np.flatnonzero(self.nodes.alive[: len(self.nodes)])
        if not rows.size:
            return
        for constraint in self.constraints:
            query = constraint.prefilter(spec)
            expected = [self.expected(pod, row).get(constraint.name, ()) for row in rows.tolist()]
            if isinstance(query, Rejection):
                assert set(expected) == {query.reasons}, constraint.name
                continue
            if query is None:
                assert set(expected) == {()}, constraint.name
                continue
            assert not isinstance(query, Unusable)
            filtered = [constraint.filter(query, Target(row)) for row in rows.tolist()]
            assert [each.reasons if each else () for each in filtered] == expected, constraint.name
            mask = constraint.mask(query, ALL)[rows].tolist()
            assert mask == constraint.mask(query, rows).tolist()
            assert mask == [constraint.admits(query, row) for row in rows.tolist()], (constraint.name, query)
            fits = [reasons == () for reasons in expected]
            if constraint.exact:
                assert mask == fits, constraint.name
            else:
                assert all(there or not fit for there, fit in zip(mask, fits, strict=True)), constraint.name
            for claim in [each for each in self.charged.values() if self.nodes.alive[self.nodes.rows[each.node]]]:
                self.check_without(claim, constraint, query)
            told: list[set[str]] = [set() for _ in expected]
            for rejected in constraint.rejections(query, rows):
                for at in np.flatnonzero(rejected.rows).tolist():
                    told[at].add(rejected.reason)
            assert told == [set(reasons) for reasons in expected], constraint.name

    def check_without(self, claim: Claim, constraint: Any, query: Any) -> None:
        """A claim that is gone by hypothesis is as good as one that is given back."""
        row = self.nodes.rows[claim.node]
        supposed = constraint.filter(query, Target(row, Hypothesis(gone=(claim,))))
        self.apply(claim, -1)
        assert constraint.filter(query, Target(row)) == supposed, constraint.name
        there = constraint.filter(query, Target(row, Hypothesis(there=(claim._replace(before=()),))))
        self.apply(claim, 1)
        if not claim.before:
            assert constraint.filter(query, Target(row)) == there, constraint.name


def pick(random: Random, *choices: Any) -> Any:
    return random.choice(choices)


def some_volume(random: Random, name: str) -> PersistentVolume:
    host = pick(random, *HOSTS, *HOSTS, "", "gone")
    affinity = None
    if host:
        values = [host, pick(random, *HOSTS)][: random.randint(1, 2)]
        expression = Requirement(key="host", operator="In", values=values)
        if random.random() < 0.4:
            expression = Requirement(key=ZONE, operator=pick(random, "Exists", "DoesNotExist"))
        affinity = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[expression])])
    owner = pick(random, "", "", "", "ns/c0", "ns/c1", "ns/other")
    labels = {"tier": pick(random, "x", "y")}
    if random.random() < 0.4:
        labels[pick(random, ZONE, BETA)] = pick(random, "a", "b", "a__b", "")
    return PersistentVolume(
        name=name,
        uid=f"uid-{name}",
        version=1,
        labels=labels,
        capacity=random.randint(1, 4),
        access_modes=pick(random, ["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"]),
        storage_class=pick(random, "local", "local", "made"),
        claim=owner,
        claim_uid=pick(random, "", f"uid-{owner[3:]}", "former") if owner else "",
        volume_mode=pick(random, "", "Filesystem", "Filesystem", "Block"),
        phase=pick(random, "Available", "Available", "Available", "Bound"),
        node_affinity=affinity,
        driver=pick(random, "csi", "csi", "ebs.csi.aws.com", ""),
        plugin=pick(random, "", "kubernetes.io/aws-ebs", "kubernetes.io/rbd"),
        handle=f"h-{name}",
        deleting=random.random() < 0.02,
    )


def some_claim(random: Random, name: str) -> PersistentVolumeClaim:
    bound = random.random() < 0.4
    selector = LabelSelector(match_labels={"tier": "x"}) if random.random() < 0.2 else None
    return PersistentVolumeClaim(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        version=1,
        storage_class=pick(random, "local", "local", "made", "made", "at-once", "missing", None),
        volume=pick(random, "v0", "v1", "v2", "nowhere") if bound else "",
        is_bound=bound and random.random() < 0.9,
        access_modes=[pick(random, "ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod")],
        requested=random.randint(0, 3),
        selector=selector,
        phase=pick(random, "Pending", "Pending", "Pending", "Pending", "Pending", "Lost"),
        selected_node=pick(random, "", "", "", "n1"),
        deleting=random.random() < 0.02,
        owner_uid=pick(random, "", "uid-new"),
    )


def some_use(random: Random) -> VolumeUse:
    roll = random.random()
    if roll < 0.6:
        return VolumeUse(source="persistentVolumeClaim", claim=f"c{random.randrange(5)}")
    if roll < 0.65:
        return VolumeUse(source="ephemeral", claim="e")
    if roll < 0.8:
        monitors = random.sample(["m1", "m2", "m3"], 2)
        return VolumeUse(source="rbd", disk=["p", pick(random, "i", "j"), *monitors], read_only=random.random() < 0.5)
    source = pick(random, "gcePersistentDisk", "awsElasticBlockStore", "iscsi")
    return VolumeUse(source=source, disk=[pick(random, "d", "e")], read_only=random.random() < 0.5)


def change(random: Random, world: World, claims: list[Claim]) -> None:
    """Something happens to nodes, storage or pods."""
    roll = random.randrange(14)
    name = str(random.randrange(5))
    if roll < 2:
        world.see(some_volume(random, f"v{name}"))
    elif roll < 4:
        world.see(some_claim(random, pick(random, f"c{name}", "new-e")))
    elif roll == 4:
        world.drop(pick(random, "persistentvolume", "persistentvolumeclaim"), pick(random, "v1", "c1"))
    elif roll == 5:
        terms = [TopologyTerm(values={"host": ["n0", "n2"]}), TopologyTerm()][: random.randrange(3)]
        provisioner = pick(random, "csi", "csi", "kubernetes.io/no-provisioner")
        world.see(
            StorageClass(
                name="made", version=1, provisioner=provisioner, binding_mode="WaitForFirstConsumer", allowed=terms
            )
        )
    elif roll == 6:
        drivers = [CSINodeDriver(name=each, count=pick(random, None, 0, 1, 2)) for each in ("csi", "ebs.csi.aws.com")]
        migrated = pick(random, [], ["kubernetes.io/aws-ebs"])
        world.see(CSINode(name=pick(random, *HOSTS), version=1, drivers=drivers, migrated=migrated))
    elif roll == 7:
        world.see(
            VolumeAttachment(
                name=f"a{name}", version=1, driver="csi", node=pick(random, *HOSTS), volume=f"v{random.randrange(5)}"
            )
        )
    elif roll == 8:
        world.see(CSIDriver(name="csi", version=1, storage_capacity=random.random() < 0.7))
        topology = LabelSelector(match_labels={"host": pick(random, *HOSTS)})
        world.see(
            CSIStorageCapacity(
                namespace="ns",
                name=f"s{name}",
                version=1,
                storage_class="made",
                topology=topology,
                capacity=random.randrange(4),
            )
        )
    elif roll == 9:
        labels = {ZONE: pick(random, "a", "b")} if random.random() < 0.6 else {}
        if random.random() < 0.3:
            labels[BETA] = pick(random, "a", "b")
        world.node(pick(random, *HOSTS, "m0", "m1"), **labels)
    elif roll == 10:
        world.nodes.see_node(pick(random, *HOSTS, "m0", "m1"), None)
    elif claims and random.random() < 0.4:
        world.release(claims.pop(random.randrange(len(claims))))
    else:
        place(random, world, claims)


def place(random: Random, world: World, claims: list[Claim]) -> None:
    """A pod gets a node, with whatever steps that takes; seen before it is charged, or after."""
    name = f"p{len(world.pods)}"
    uses = [some_use(random) for _ in range(random.randrange(4))]
    alive = np.flatnonzero(world.nodes.alive[: len(world.nodes)]).tolist()
    if not alive:
        return
    row = random.choice(alive)
    pod = Pod(namespace="ns", name=name, uid=f"uid-{name}", version=1, template=PodTemplate(volumes=uses))
    steps: tuple[Step, ...] = ()
    query = world.binding.prefilter(Spec(("ns", name), "ns", pod.uid, pod.template))
    if isinstance(query, Wanted):
        found = world.binding.reserve(query, Target(row))
        if isinstance(found, Rejection):
            return
        steps = found
    if random.random() < 0.5:
        world.pod(name, uses)
        claims.append(world.charge(name, world.nodes.names[row], *steps))
    else:
        claims.append(world.charge(name, world.nodes.names[row], *steps))
        world.pod(name, uses)


@given(st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_masks_filters_and_reasons_are_the_rules(random: Random) -> None:
    world = World()
    world.complete()
    for host in HOSTS:
        world.node(host)
    world.see(LOCAL)
    world.see(StorageClass(name="at-once", version=1, provisioner="csi", binding_mode="Immediate"))
    world.see(MADE)
    for at, host in enumerate(HOSTS):
        limits = [CSINodeDriver(name="csi", count=1)]
        world.see(CSINode(name=host, version=1, drivers=limits))
        world.see(some_volume(random, f"v{at}"))
        world.see(some_claim(random, f"c{at}"))
    claims: list[Claim] = []
    for _ in range(8):
        change(random, world, claims)
    for _ in range(10):
        for _ in range(2):
            change(random, world, claims)
        uses = [some_use(random) for _ in range(random.randint(1, 3))]
        world.check(Pod(namespace="ns", name="new", uid="uid-new", version=1, template=PodTemplate(volumes=uses)))
    before = len(world.charged)
    for claim in claims:
        world.release(claim)
    assert before == len(claims)
    assert not world.tally._held
    assert not world.tally._unseen
    assert not world.tally._kept
    assert not world.tally._users


def test_a_pod_with_claims_waits_until_the_storage_is_read() -> None:
    world = World()
    world.node("n0")
    template = PodTemplate(volumes=[VolumeUse(source="persistentVolumeClaim", claim="c")])
    spec = Spec(("ns", "new"), "ns", "uid-new", template)
    for constraint in world.constraints:
        assert constraint.prefilter(spec) == Rejection((NOT_READ,), resolvable=False)
    disk = PodTemplate(volumes=[VolumeUse(source="gcePersistentDisk", disk=["d"])])
    query = world.restrictions.prefilter(spec._replace(template=disk))
    assert world.restrictions.filter(query, Target(0)) is None
    world.complete()
    assert world.binding.prefilter(spec) == Rejection(('persistentvolumeclaim "c" not found',), resolvable=False)


def test_each_volume_goes_to_one_claim_of_a_batch() -> None:
    world = World()
    world.complete()
    for host in HOSTS:
        world.node(host)
    world.see(LOCAL)
    for at in range(2):
        world.see(free_volume(f"v{at}", "n1"))
    for at in range(3):
        world.see(waiting(f"c{at}"))
    given = []
    for at in range(3):
        pod = world.pod(f"p{at}", [VolumeUse(source="persistentVolumeClaim", claim=f"c{at}")])
        query = world.binding.prefilter(Spec(("ns", pod.name), "ns", pod.uid, pod.template))
        assert world.binding.mask(query, ALL).tolist() == [False, at < 2, False, False]
        found = world.binding.reserve(query, Target(1))
        if isinstance(found, Rejection):
            assert found.reasons == (volume_binding.REASON_NO_VOLUME,)
            break
        given += [step.volume for step in found]
        claim = world.charge(pod.name, "n1", *found)
        assert world.binding.accounts(query, claim) == (f"claim.ns.c{at}", f"volume.v{at}")
    assert given == ["v0", "v1"]
    world.release(next(iter(world.charged.values())))
    assert world.binding.mask(query, ALL).tolist() == [False, True, False, False]


def test_a_pod_that_shares_a_waiting_claim_follows_the_one_that_was_decided_first() -> None:
    world = World()
    world.complete()
    for host in HOSTS:
        world.node(host)
    world.see(MADE)
    world.see(waiting("c", storage_class="made"))
    uses = [VolumeUse(source="persistentVolumeClaim", claim="c")]
    first = world.pod("p0", uses)
    query = world.binding.prefilter(Spec(("ns", first.name), "ns", first.uid, first.template))
    assert world.binding.mask(query, ALL).all()
    steps = world.binding.reserve(query, Target(2))
    assert steps == (Step(action="provision-volume", claim="c", claim_uid="uid-c"),)
    world.charge("p0", "n2", *steps)
    assert world.binding.mask(query, ALL).tolist() == [False, False, True, False]


def test_a_reservation_binds_no_volume() -> None:
    world = World()
    world.complete()
    world.node("n0")
    world.see(MADE)
    world.see(waiting("c", storage_class="made"))
    template = PodTemplate(volumes=[VolumeUse(source="persistentVolumeClaim", claim="c")])
    found = world.binding.prefilter(Spec(("", "r"), "ns", "uid-r", template))
    assert isinstance(found, Unusable)
    assert found.problems[0].message == "a Reservation binds no volumes: claim c is not bound"


def test_claims_that_have_changed_since_they_were_compiled_are_read_again() -> None:
    world = World()
    world.complete()
    for host in HOSTS:
        world.node(host)
    world.see(LOCAL)
    world.see(free_volume("v", "n1"))
    world.see(waiting("c"))
    pod = world.pod("p", [VolumeUse(source="persistentVolumeClaim", claim="c")])
    query = world.binding.prefilter(Spec(("ns", pod.name), "ns", pod.uid, pod.template))
    assert isinstance(query, Wanted)
    assert world.binding.filter(query, Target(1)) is None
    world.see(waiting("c", volume="v", is_bound=True))
    assert world.binding.reserve(query, Target(1)) == ()
    world.see(waiting("c", deleting=True))
    reason = 'persistentvolumeclaim "c" is being deleted'
    assert world.binding.filter(query, Target(1)) == Rejection((reason,), resolvable=False)
    assert not world.binding.mask(query, ALL).any()
    assert [each.reason for each in world.binding.rejections(query, np.arange(4))] == [reason]


def test_a_node_that_is_given_the_row_of_another_begins_without_its_limits() -> None:
    world = World()
    world.complete()
    world.node("n0")
    world.see(MADE)
    world.see(CSINode(name="n0", version=1, drivers=[CSINodeDriver(name="csi", count=0)]))
    world.see(CSINode(name="n1", version=1, drivers=[CSINodeDriver(name="csi", count=1)]))
    world.see(waiting("c", storage_class="made"))
    pod = world.pod("p", [VolumeUse(source="persistentVolumeClaim", claim="c")])
    spec = Spec(("ns", pod.name), "ns", pod.uid, pod.template)
    assert world.limits.mask(world.limits.prefilter(spec), ALL).tolist() == [False]
    world.nodes.see_node("n0", None)
    world.node("other")
    assert world.nodes.rows["other"] == 0
    assert world.limits.mask(world.limits.prefilter(spec), ALL).tolist() == [True]
