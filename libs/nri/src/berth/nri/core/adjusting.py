"""What a plugin changes about a container, as plain values, and the messages that say so.

None means that a value is left as it is. The runtime refuses a container about which two plugins say the same thing, so
nothing is set that was not decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from berth.nri import api_pb2 as api


class Mount(msgspec.Struct, frozen=True):
    """A mount of the container; the source is a path of the node."""

    destination: str
    source: str
    type: str = "bind"
    options: tuple[str, ...] = ("rbind", "ro")


class Device(msgspec.Struct, frozen=True):
    """A device file of the container, `type` `c` or `b`. The runtime lets the container use it by itself."""

    path: str
    major: int
    minor: int
    type: str = "c"
    file_mode: int | None = None
    uid: int | None = None
    gid: int | None = None


class Resources(msgspec.Struct, frozen=True):
    """Limits. CPUs and memory nodes are lists (`0-3,8`); quota (-1: none) and period are microseconds, memory bytes."""

    cpus: str | None = None
    mems: str | None = None
    cpu_quota_us: int | None = None
    cpu_period_us: int | None = None
    cpu_shares: int | None = None
    memory_limit: int | None = None
    rdt_class: str | None = None
    unified: Mapping[str, str] = {}


class Adjustment(msgspec.Struct, frozen=True):
    """What a container is created with beside what was asked for.

    `replaced` names variables, destinations, device paths and annotations that the container may have already: each is
    removed before the value here takes its place, and without one it is removed for good.
    """

    env: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    annotations: Mapping[str, str] = {}
    cdi_devices: tuple[str, ...] = ()
    resources: Resources = Resources()
    oom_score_adj: int | None = None
    replaced_env: tuple[str, ...] = ()
    replaced_mounts: tuple[str, ...] = ()
    replaced_devices: tuple[str, ...] = ()
    replaced_annotations: tuple[str, ...] = ()


class Update(msgspec.Struct, frozen=True):
    """New limits of a container that is there. `container_id` may be empty in the answer about that container."""

    container_id: str
    resources: Resources
    ignore_failure: bool = False


class Creation(msgspec.Struct, frozen=True):
    """The answer to CreateContainer: about this container, and about others that it has consequences for."""

    adjustment: Adjustment = Adjustment()
    updates: tuple[Update, ...] = ()


def creation_message(creation: Creation) -> api.CreateContainerResponse:
    """The answer; empty when nothing is decided."""
    found = api.CreateContainerResponse(update=update_messages(creation.updates))
    if creation.adjustment != Adjustment():
        found.adjust.CopyFrom(adjustment_message(creation.adjustment))
    return found


def adjustment_message(adjustment: Adjustment) -> api.ContainerAdjustment:
    """Only what is decided is set. A key with `-` before it removes, and stands before what takes its place."""
    found = api.ContainerAdjustment()
    found.annotations.update({f"-{key}": "" for key in adjustment.replaced_annotations})
    found.annotations.update(adjustment.annotations)
    found.mounts.extend(api.Mount(destination=f"-{path}") for path in adjustment.replaced_mounts)
    for mount in adjustment.mounts:
        found.mounts.add(destination=mount.destination, type=mount.type, source=mount.source, options=mount.options)
    found.env.extend(api.KeyValue(key=f"-{key}") for key in adjustment.replaced_env)
    found.env.extend(api.KeyValue(key=key, value=value) for key, value in adjustment.env.items())
    found.CDI_devices.extend(api.CDIDevice(name=name) for name in adjustment.cdi_devices)
    found.linux.devices.extend(api.LinuxDevice(path=f"-{path}") for path in adjustment.replaced_devices)
    found.linux.devices.extend(_device(device) for device in adjustment.devices)
    if (resources := resources_message(adjustment.resources)).ByteSize():
        found.linux.resources.CopyFrom(resources)
    if adjustment.oom_score_adj is not None:
        found.linux.oom_score_adj.CopyFrom(api.OptionalInt(value=adjustment.oom_score_adj))
    if not found.linux.ByteSize():
        found.ClearField("linux")
    return found


def resources_message(resources: Resources) -> api.LinuxResources:
    """Only what is decided is set: the presence of a wrapper is what says so, 0 and -1 are values."""
    found = api.LinuxResources(unified=resources.unified)
    if resources.cpus is not None:
        found.cpu.cpus = resources.cpus
    if resources.mems is not None:
        found.cpu.mems = resources.mems
    if resources.cpu_quota_us is not None:
        found.cpu.quota.CopyFrom(api.OptionalInt64(value=resources.cpu_quota_us))
    if resources.cpu_period_us is not None:
        found.cpu.period.CopyFrom(api.OptionalUInt64(value=resources.cpu_period_us))
    if resources.cpu_shares is not None:
        found.cpu.shares.CopyFrom(api.OptionalUInt64(value=resources.cpu_shares))
    if resources.memory_limit is not None:
        found.memory.limit.CopyFrom(api.OptionalInt64(value=resources.memory_limit))
    if resources.rdt_class is not None:
        found.rdt_class.CopyFrom(api.OptionalString(value=resources.rdt_class))
    return found


def update_messages(updates: Iterable[Update], own_id: str = "") -> list[api.ContainerUpdate]:
    """The updates; `own_id` is the container meant by one without an id."""
    found = []
    for update in updates:
        message = api.ContainerUpdate(container_id=update.container_id or own_id, ignore_failure=update.ignore_failure)
        message.linux.resources.CopyFrom(resources_message(update.resources))
        found.append(message)
    return found


def _device(device: Device) -> api.LinuxDevice:
    found = api.LinuxDevice(path=device.path, type=device.type, major=device.major, minor=device.minor)
    if device.file_mode is not None:
        found.file_mode.CopyFrom(api.OptionalFileMode(value=device.file_mode))
    if device.uid is not None:
        found.uid.CopyFrom(api.OptionalUInt32(value=device.uid))
    if device.gid is not None:
        found.gid.CopyFrom(api.OptionalUInt32(value=device.gid))
    return found
