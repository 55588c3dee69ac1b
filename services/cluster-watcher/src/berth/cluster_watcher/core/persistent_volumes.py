"""v1 PersistentVolume: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import NamedTuple

from berth.cluster_watcher.core.storage_amounts import access_modes_of, bytes_of
from berth.contracts import state
from berth.contracts.kube import NodeSelector, PersistentVolume, VolumeNodeAffinity, VolumeSpec
from berth.rules.node_affinity import compile_terms
from berth.rules.reading.findings import Found, problems_of
from berth.rules.reading.metadata import identity_of, named_storage_class


class Source(NamedTuple):
    """What a volume is: a CSI driver and its name for the volume; both empty where no driver is known.

    `plugin` is the in-tree plugin that the driver came after, where the source is one of its.
    """

    driver: str = ""
    handle: str = ""
    plugin: str = ""


def persistent_volume_of(item: PersistentVolume, version: int) -> state.PersistentVolume:
    """The volume. Without a capacity that can be read it holds nothing, without such an affinity no node reaches it."""
    found: Found = []
    meta, spec = item.metadata, item.spec
    claim, source = spec.claim_ref, source_of(spec)
    return state.PersistentVolume(
        name=identity_of(meta, found).name,
        uid=meta.uid,
        version=version,
        labels=meta.labels or {},
        capacity=bytes_of((spec.capacity or {}).get("storage"), "spec.capacity[storage]", found) or 0,
        access_modes=access_modes_of(spec.access_modes, found),
        storage_class=named_storage_class(meta, spec.storage_class_name) or "",
        volume_mode=spec.volume_mode,
        claim=f"{claim.namespace}/{claim.name}" if claim is not None else "",
        claim_uid=claim.uid if claim is not None else "",
        phase=item.status.phase,
        node_affinity=_affinity(spec.node_affinity, found),
        driver=source.driver,
        handle=source.handle,
        plugin=source.plugin,
        deleting=meta.deletion_timestamp is not None,
        problems=problems_of(found),
    )


def source_of(spec: VolumeSpec) -> Source:
    """The CSI driver and its name for the volume; an in-tree source by the driver that it was moved to.

    The drivers' names are those of Kubernetes' `csi-translation-lib`. Sources without a driver (`nfs`, `hostPath`,
    `local`, ...) have none.
    """
    if spec.csi is not None:
        return Source(spec.csi.driver, spec.csi.volume_handle)
    if spec.aws_elastic_block_store is not None:  # vol-1, or aws://eu-1a/vol-1
        return Source(
            "ebs.csi.aws.com", spec.aws_elastic_block_store.volume_id.rpartition("/")[2], "kubernetes.io/aws-ebs"
        )
    if spec.gce_persistent_disk is not None:
        return Source("pd.csi.storage.gke.io", spec.gce_persistent_disk.pd_name, "kubernetes.io/gce-pd")
    if spec.azure_disk is not None:
        return Source("disk.csi.azure.com", spec.azure_disk.disk_uri, "kubernetes.io/azure-disk")
    if spec.azure_file is not None:
        return Source("file.csi.azure.com", spec.azure_file.share_name, "kubernetes.io/azure-file")
    if spec.cinder is not None:
        return Source("cinder.csi.openstack.org", spec.cinder.volume_id, "kubernetes.io/cinder")
    if spec.portworx_volume is not None:
        return Source("pxd.portworx.com", spec.portworx_volume.volume_id, "kubernetes.io/portworx-volume")
    if spec.vsphere_volume is not None:
        return Source("csi.vsphere.vmware.com", spec.vsphere_volume.volume_path, "kubernetes.io/vsphere-volume")
    if spec.rbd is not None:
        return Source("rbd.csi.ceph.com", f"{spec.rbd.pool}/{spec.rbd.image}", "kubernetes.io/rbd")
    return Source()


def _affinity(affinity: VolumeNodeAffinity | None, found: Found) -> NodeSelector | None:
    """Which nodes reach the volume; a rule that cannot be evaluated becomes one that no node satisfies."""
    if affinity is None or affinity.required is None:
        return None
    problems = compile_terms(
        affinity.required.node_selector_terms, "spec.nodeAffinity.required.nodeSelectorTerms"
    ).problems
    found += [(problem.field, problem.message) for problem in problems]
    return NodeSelector() if problems else affinity.required
