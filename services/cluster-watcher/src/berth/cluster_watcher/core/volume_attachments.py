"""storage.k8s.io/v1 VolumeAttachment: from the API server's object to what STATE says of it."""

from __future__ import annotations

from berth.contracts import state
from berth.contracts.kube import VolumeAttachment
from berth.rules.reading.metadata import identity_of


def volume_attachment_of(item: VolumeAttachment, version: int) -> state.VolumeAttachment:
    """The attachment; `volume` is empty for one that a pod describes inline."""
    spec = item.spec
    return state.VolumeAttachment(
        name=identity_of(item.metadata, []).name,
        version=version,
        driver=spec.attacher,
        node=spec.node_name,
        volume=spec.source.persistent_volume_name,
    )
