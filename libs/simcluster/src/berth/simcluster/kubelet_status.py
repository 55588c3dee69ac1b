"""The statuses that a kubelet reports: of a pod that runs, of one that ended, of a node that is well."""

from berth.simcluster.store.objects import Json, section, with_condition

_NODE_WELL = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def running_status(pod: Json, node: Json, now: str, *, order: int) -> Json:
    """All containers run and are ready. `order` makes the pod's address."""
    status = section(pod, "status")
    conditions = status.get("conditions") or []
    for kind in ("Initialized", "ContainersReady", "Ready"):
        conditions = with_condition(conditions, _condition(kind, "True", now))
    containers = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod["spec"]["containers"]
    ]
    address = f"10.{128 + order // 65536 % 128}.{order // 256 % 256}.{order % 256}"
    return {
        **status,
        "phase": "Running",
        "conditions": conditions,
        "hostIP": _address(node),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "containerStatuses": containers,
    }


def ended_status(pod: Json, now: str, *, failed: bool) -> Json:
    """All containers have terminated, with exit code 0 or 1."""
    status = section(pod, "status")
    reason = "Error" if failed else "Completed"
    conditions = status.get("conditions") or []
    for kind in ("ContainersReady", "Ready"):
        conditions = with_condition(conditions, {**_condition(kind, "False", now), "reason": "PodCompleted"})
    containers = []
    for container in status.get("containerStatuses") or ():
        started = section(section(container, "state"), "running").get("startedAt", now)
        ended = {"exitCode": int(failed), "reason": reason, "startedAt": started, "finishedAt": now}
        containers.append({**container, "ready": False, "started": False, "state": {"terminated": ended}})
    phase = "Failed" if failed else "Succeeded"
    return {**status, "phase": phase, "conditions": conditions, "containerStatuses": containers}


def node_status(node: Json, now: str) -> Json:
    """The node is ready; capacity is what is allocatable unless it is known."""
    status = section(node, "status")
    conditions = status.get("conditions") or []
    for kind, value, reason, message in _NODE_WELL:
        well = {**_condition(kind, value, now), "lastHeartbeatTime": now, "reason": reason, "message": message}
        well.pop("lastProbeTime")
        conditions = with_condition(conditions, well)
    result = {**status, "conditions": conditions}
    result.setdefault("capacity", section(status, "allocatable"))
    result.setdefault("allocatable", section(result, "capacity"))
    result.setdefault("nodeInfo", {"kubeletVersion": "v1.34.0-berth-sim", "operatingSystem": "linux"})
    return result


def _condition(kind: str, value: str, now: str) -> Json:
    return {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": now}


def _address(node: Json) -> str:
    for address in section(node, "status").get("addresses") or ():
        if isinstance(address, dict) and address.get("type") == "InternalIP":
            return str(address.get("address", ""))
    return ""
