"""What is decided about a container becomes messages, and nothing else does."""

from __future__ import annotations

from berth.nri import Adjustment, Creation, Device, Mount, Resources, Update
from berth.nri.core.adjusting import adjustment_message, creation_message, resources_message, update_messages
from berth.nri.core.back_off import BackOff


def test_the_example_of_the_interface() -> None:
    """adjust(field 1){linux 6{resources 2{cpu 2{quota 2{value 1: -1}, cpus 6: "2-3"}}}}."""
    creation = Creation(Adjustment(resources=Resources(cpus="2-3", cpu_quota_us=-1)))
    cpu = b"\x12\x0b\x08" + b"\xff" * 9 + b"\x01" + b"\x32\x032-3"
    resources = b"\x12" + bytes([len(cpu)]) + cpu
    linux = b"\x12" + bytes([len(resources)]) + resources
    adjust = b"\x32" + bytes([len(linux)]) + linux
    assert creation_message(creation).SerializeToString() == b"\x0a" + bytes([len(adjust)]) + adjust


def test_nothing_decided_is_an_empty_answer() -> None:
    assert creation_message(Creation()).SerializeToString() == b""
    assert adjustment_message(Adjustment()).SerializeToString() == b""
    assert not adjustment_message(Adjustment(env={"A": "1"})).HasField("linux")


def test_zero_is_a_value_and_none_is_not() -> None:
    zero = resources_message(Resources(cpu_quota_us=0, cpu_shares=0, memory_limit=0, cpu_period_us=0, rdt_class=""))
    assert all(zero.cpu.HasField(name) for name in ("quota", "shares", "period"))
    assert zero.memory.HasField("limit")
    assert zero.HasField("rdt_class")
    some = resources_message(Resources(mems="0", unified={"memory.high": "5"}))
    assert some.cpu.mems == "0"
    assert some.unified == {"memory.high": "5"}
    assert not some.cpu.HasField("quota")
    assert not some.HasField("memory")


def test_a_whole_adjustment() -> None:
    found = adjustment_message(
        Adjustment(
            env={"NVIDIA_VISIBLE_DEVICES": "GPU-1"},
            mounts=(Mount("/usr/lib/hami", "/var/lib/hami", options=("rbind", "ro")),),
            devices=(Device("/dev/davinci0", 236, 0, file_mode=0o660, uid=0, gid=1000),),
            annotations={"a": "b"},
            cdi_devices=("vendor.test/gpu=0",),
            replaced_env=("NVIDIA_VISIBLE_DEVICES",),
            replaced_mounts=("/usr/lib/hami",),
            replaced_devices=("/dev/davinci0",),
            replaced_annotations=("a",),
        )
    )
    assert [(each.key, each.value) for each in found.env] == [
        ("-NVIDIA_VISIBLE_DEVICES", ""),
        ("NVIDIA_VISIBLE_DEVICES", "GPU-1"),
    ]
    assert [each.destination for each in found.mounts] == ["-/usr/lib/hami", "/usr/lib/hami"]
    assert (found.mounts[1].source, list(found.mounts[1].options)) == ("/var/lib/hami", ["rbind", "ro"])
    removed, device = found.linux.devices
    assert removed.path == "-/dev/davinci0"
    assert (device.path, device.type, device.major, device.minor) == ("/dev/davinci0", "c", 236, 0)
    assert (device.file_mode.value, device.uid.value, device.gid.value) == (0o660, 0, 1000)
    assert device.HasField("uid")
    assert dict(found.annotations) == {"-a": "", "a": "b"}
    assert found.CDI_devices[0].name == "vendor.test/gpu=0"
    assert not found.linux.HasField("resources")


def test_an_update_without_an_id_is_about_the_container_itself() -> None:
    updates = [Update("", Resources(cpus="1")), Update("other", Resources(cpus="2"), ignore_failure=True)]
    own, other = update_messages(updates, "own")
    assert (own.container_id, own.linux.resources.cpu.cpus, own.ignore_failure) == ("own", "1", False)
    assert (other.container_id, other.ignore_failure) == ("other", True)


def test_pauses_double_up_to_the_longest_and_start_over() -> None:
    back_off = BackOff(1.0, 5.0, held_s=6.0)
    assert [back_off.after(0.0, 0.0) for _ in range(5)] == [1, 2, 4, 5, 5]
    assert back_off.after(5.9, 1.0) == 5.5
    assert back_off.after(6.0, 1.0) == 1.1
    assert back_off.after(0.0, 0.0) == 2
