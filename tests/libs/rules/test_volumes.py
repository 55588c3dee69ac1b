"""The rules about volumes: what pods exclude, how many volumes a node takes, zones, and which volume a claim gets."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts.base import Problem
from berth.contracts.kube import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from berth.contracts.state import (
    CSIDriver,
    CSINode,
    CSINodeDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologyTerm,
    VolumeAttachment,
    VolumeUse,
)
from berth.rules import volume_binding as binding
from berth.rules import volume_conflicts as conflicts
from berth.rules import volume_limits as limits
from berth.rules import volume_zones as zones
from berth.rules.storage import Mounter, StorageObjects, StorageRejection

GI = 1 << 30


def claim(name: str, **fields: Any) -> PersistentVolumeClaim:
    fields = {"storage_class": "local", "access_modes": ["ReadWriteOnce"], "requested": GI} | fields
    return PersistentVolumeClaim(namespace="ns", name=name, uid=f"uid-{name}", version=1, **fields)


def volume(name: str, node: str = "", **fields: Any) -> PersistentVolume:
    fields = {
        "storage_class": "local",
        "access_modes": ["ReadWriteOnce"],
        "capacity": GI,
        "phase": "Available",
    } | fields
    return PersistentVolume(name=name, uid=f"uid-{name}", version=1, node_affinity=only(node), **fields)


def only(node: str) -> NodeSelector | None:
    if not node:
        return None
    expression = Requirement(key="host", operator="In", values=[node])
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[expression])])


def storage(*objects: Any) -> StorageObjects:
    store = StorageObjects()
    for each in objects:
        match each:
            case PersistentVolumeClaim():
                store.see_claim((each.namespace, each.name), each)
            case PersistentVolume():
                store.see_volume(each.name, each)
            case StorageClass():
                store.see_class(each.name, each)
            case CSINode():
                store.see_csi_node(each.name, each)
            case CSIDriver():
                store.see_csi_driver(each.name, each)
            case CSIStorageCapacity():
                store.see_capacity((each.namespace, each.name), each)
            case VolumeAttachment():
                store.see_attachment(each.name, each)
    return store


LOCAL = StorageClass(name="local", version=1, provisioner=binding.NO_PROVISIONER, binding_mode="WaitForFirstConsumer")
MADE = StorageClass(name="made", version=1, provisioner="csi", binding_mode="WaitForFirstConsumer")


def pod(*claims: str, ephemeral: tuple[str, ...] = ()) -> Mounter:
    uses = [VolumeUse(source="persistentVolumeClaim", claim=each) for each in claims]
    uses += [VolumeUse(source="ephemeral", claim=each) for each in ephemeral]
    return Mounter("ns", "p", "uid-p", uses)


def chosen(
    store: StorageObjects, *claims: str, node: str = "a", promises: binding.Promises = binding.NOTHING_PROMISED
) -> Any:
    found = binding.claims_of(pod(*claims), store)
    assert isinstance(found, binding.PodClaims)
    choices = binding.choose(found, node, {"host": node}, store, promises)
    return choices.reasons or {each.claim.name: each.volume and each.volume.name for each in choices.choices}


# --- binding ---------------------------------------------------------------------------------------------------------


def test_the_smallest_volume_that_fits_and_that_the_node_reaches() -> None:
    store = storage(
        LOCAL,
        claim("c"),
        volume("tiny", "a", capacity=GI - 1),
        volume("huge", "a", capacity=9 * GI),
        volume("right", "a", capacity=2 * GI),
        volume("elsewhere", "b"),
        volume("other-mode", "a", volume_mode="Block"),
        volume("other-access", "a", access_modes=["ReadOnlyMany"]),
        volume("other-class", "a", storage_class="fast"),
        volume("ending", "a", deleting=True),
        volume("released", "a", phase="Released"),
    )
    assert chosen(store, "c") == {"c": "right"}
    assert chosen(store, "c", node="b") == {"c": "elsewhere"}
    assert chosen(store, "c", node="z") == (binding.REASON_NO_VOLUME,)


def test_the_smaller_claim_chooses_first_and_nothing_is_chosen_twice() -> None:
    store = storage(
        LOCAL,
        claim("large", requested=3 * GI),
        claim("small"),
        volume("v1", "a", capacity=3 * GI),
        volume("v2", "a", capacity=4 * GI),
    )
    assert chosen(store, "large", "small") == {"small": "v1", "large": "v2"}


def test_a_volume_that_names_the_claim_comes_before_smaller_ones() -> None:
    kept = volume("kept", "a", capacity=9 * GI, claim="ns/c", claim_uid="uid-c", phase="Bound")
    store = storage(LOCAL, claim("c"), volume("v", "a"), kept)
    assert chosen(store, "c") == {"c": "kept"}
    assert chosen(store, "c", node="b") == (binding.REASON_NO_VOLUME,)


def test_a_volume_of_a_former_claim_of_the_name_is_not_the_claims() -> None:
    store = storage(LOCAL, claim("c"), volume("old", "a", claim="ns/c", claim_uid="former"))
    assert chosen(store, "c") == (binding.REASON_NO_VOLUME,)


def test_what_a_decision_has_promised_counts_as_if_it_were_seen() -> None:
    store = storage(LOCAL, claim("c"), claim("d"), volume("v", "a"), volume("w", "b"))
    promised = binding.Promises(kept={"v": (("ns", "c"), "uid-c")})
    assert chosen(store, "d", promises=promised) == (binding.REASON_NO_VOLUME,)
    assert chosen(store, "c", promises=promised) == {"c": "v"}
    assert chosen(store, "c", node="b", promises=promised) == (binding.REASON_NO_VOLUME,)


def test_a_selector_that_nothing_matches_and_one_that_cannot_be_read() -> None:
    labelled = volume("v", "a", labels={"tier": "x"})
    other = LabelSelector(match_labels={"tier": "y"})
    assert chosen(storage(LOCAL, claim("c", selector=other), labelled), "c") == (binding.REASON_NO_VOLUME,)
    broken = LabelSelector(match_expressions=[Requirement(key="tier", operator="Around", values=["x"])])
    found = binding.claims_of(pod("c"), storage(LOCAL, claim("c", selector=broken), labelled))
    assert isinstance(found, StorageRejection)
    assert "spec.selector.matchExpressions[0].operator" in found.reasons[0]


def test_provisioning_asks_the_class_its_topology_and_the_space() -> None:
    zone = StorageClass(
        name="made",
        version=1,
        provisioner="csi",
        binding_mode="WaitForFirstConsumer",
        allowed=[TopologyTerm(values={"host": ["a", "b"]})],
    )
    wanted = claim("c", storage_class="made")
    assert chosen(storage(zone, wanted), "c") == {"c": None}
    assert chosen(storage(zone, wanted), "c", node="z") == (binding.REASON_NO_VOLUME,)
    driver = CSIDriver(name="csi", version=1, storage_capacity=True)
    assert chosen(storage(zone, wanted, driver), "c") == (binding.REASON_SPACE,)

    def space(node: str, **fields: Any) -> CSIStorageCapacity:
        topology = LabelSelector(match_labels={"host": node})
        return CSIStorageCapacity(
            namespace="k", name=node, version=1, storage_class="made", topology=topology, **fields
        )

    assert chosen(storage(zone, wanted, driver, space("a", capacity=GI)), "c") == {"c": None}
    assert chosen(storage(zone, wanted, driver, space("a", capacity=GI - 1)), "c") == (binding.REASON_SPACE,)
    assert chosen(storage(zone, wanted, driver, space("a", capacity=9 * GI, volume_max=1)), "c") == (
        binding.REASON_SPACE,
    )
    assert chosen(storage(zone, wanted, driver, space("b", capacity=GI)), "c") == (binding.REASON_SPACE,)


def test_a_class_without_provisioner_provisions_nothing() -> None:
    assert chosen(storage(LOCAL, claim("c")), "c") == (binding.REASON_NO_VOLUME,)


def test_a_selected_node_is_the_only_one() -> None:
    store = storage(MADE, claim("c", storage_class="made", selected_node="b"))
    assert chosen(store, "c") == (binding.REASON_NO_VOLUME,)
    assert chosen(store, "c", node="b") == {"c": None}
    store = storage(MADE, claim("c", storage_class="made"))
    promised = binding.Promises(selected={("ns", "c"): "b"})
    assert chosen(store, "c", promises=promised) == (binding.REASON_NO_VOLUME,)
    assert chosen(store, "c", node="b", promises=promised) == {"c": None}


def test_a_bound_claim_needs_a_node_that_reaches_its_volume() -> None:
    bound = claim("c", volume="v", is_bound=True)
    assert chosen(storage(bound, volume("v", "a")), "c") == {}
    assert chosen(storage(bound, volume("v", "b")), "c") == (binding.REASON_NODE,)
    assert chosen(storage(bound), "c") == (binding.REASON_GONE,)


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        (
            [claim("c", phase="Lost", volume="v")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        ([claim("c", deleting=True)], 'persistentvolumeclaim "c" is being deleted'),
        ([claim("c", storage_class="gone")], binding.REASON_IMMEDIATE),
        ([claim("c", storage_class=None)], binding.REASON_IMMEDIATE),
        ([LOCAL, claim("c", volume="v")], binding.REASON_IMMEDIATE),
        (
            [LOCAL, claim("c", problems=[Problem(field="spec.resources", message="is no amount")])],
            'persistentvolumeclaim "c": spec.resources: is no amount',
        ),
    ],
)
def test_claims_that_no_node_helps(objects: list[Any], reason: str) -> None:
    assert binding.claims_of(pod("c"), storage(*objects)) == StorageRejection((reason,))


def test_an_ephemeral_claim_is_made_for_its_pod() -> None:
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'
    assert binding.claims_of(pod(ephemeral=("e",)), storage()) == StorageRejection((waiting,))
    foreign = "PVC ns/p-e was not created for pod ns/p (pod is not owner)"
    assert binding.claims_of(pod(ephemeral=("e",)), storage(LOCAL, claim("p-e"))) == StorageRejection((foreign,))
    mine = claim("p-e", owner_uid="uid-p")
    assert binding.claims_of(pod(ephemeral=("e",)), storage(LOCAL, mine)) == binding.PodClaims((), (mine,))


# --- conflicts, limits, zones ----------------------------------------------------------------------------------------


def test_a_claim_that_is_missing_speaks_against_every_node() -> None:
    assert conflicts.one_pod_claims(pod("c"), storage()) == StorageRejection(('persistentvolumeclaim "c" not found',))
    missing = 'looking up PVC ns/c: persistentvolumeclaim "c" not found'
    assert limits.wanted_volumes(pod("c"), storage()) == StorageRejection((missing,))


def test_an_in_tree_disk_counts_where_it_is_migrated() -> None:
    disk = Mounter("ns", "p", "u", [VolumeUse(source="awsElasticBlockStore", disk=["aws://zone/vol-1"])])
    wanted = limits.wanted_volumes(disk, storage())
    assert isinstance(wanted, frozenset)
    driver = CSINodeDriver(name="ebs.csi.aws.com", count=0)
    without = CSINode(name="n", version=1, drivers=[driver])
    migrated = CSINode(name="n", version=1, drivers=[driver], migrated=["kubernetes.io/aws-ebs"])
    for csi_node, too_many in ((without, False), (migrated, True)):
        here = limits.counted(wanted, limits.migrated(csi_node))
        assert limits.exceeds(here, {}, limits.limits_of(csi_node)) == too_many
    assert limits.counted(wanted, limits.migrated(migrated)) == {"ebs.csi.aws.com/vol-1": "ebs.csi.aws.com"}


def test_an_attached_volume_takes_no_second_place() -> None:
    bound = claim("c", volume="v", is_bound=True)
    store = storage(
        bound,
        volume("v", driver="csi", handle="h"),
        VolumeAttachment(name="a", version=1, driver="csi", node="n", volume="v"),
    )
    there = limits.counted(limits.attached_volumes(store.attachments_on("n"), store), frozenset())
    wanted = limits.wanted_volumes(pod("c"), store)
    assert isinstance(wanted, frozenset)
    assert not limits.exceeds(limits.counted(wanted, frozenset()), there, {"csi": 1})


def test_a_label_of_a_zone_with_an_empty_part_says_nothing() -> None:
    odd = volume("v", labels={"topology.kubernetes.io/zone": "za__"})
    assert zones.terms_of(odd) == []


def test_a_node_with_the_old_label_does_not_answer_for_the_new_one() -> None:
    term = zones.ZoneTerm("topology.kubernetes.io/zone", frozenset({"za"}))
    assert not zones.is_in_zone([term], {"failure-domain.beta.kubernetes.io/zone": "za"})


def test_a_class_that_does_not_say_when_it_binds() -> None:
    odd = StorageClass(name="odd", version=1)
    found = zones.zone_terms(pod("c"), storage(odd, claim("c", storage_class="odd")))
    assert found == StorageRejection(('VolumeBindingMode not set for StorageClass "odd"',))


def test_the_index_follows_what_is_seen() -> None:
    store = storage(volume("v"))
    store.see_volume("v", volume("v", storage_class="other", claim="ns/c"))
    assert list(store.volumes_of_class("local")) == []
    assert [each.name for each in store.volumes_of_class("other")] == ["v"]
    assert [each.name for each in store.volumes_kept_for(("ns", "c"))] == ["v"]
    store.see_volume("v", None)
    assert list(store.volumes_of_class("other")) == []
    assert list(store.volumes_kept_for(("ns", "c"))) == []
