"""Write the components that give node agents the rights of their strategies, from the registry of these.

Usage: agent_components.py [--check]. The results are k8s/components/enforce and its sisters (`enforce-network`, ...),
one for each component that a strategy names: what of the base's restrictions it lifts, and for which strategies.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from berth.node_qos_enforcer.core.strategies.registry import STRATEGIES
from berth.node_qos_enforcer.core.strategies.seam import Component, Mount, Strategy

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "k8s/components"
BASE: Final[Component] = "enforce"
PURPOSES: Final[Mapping[Component, str]] = {
    "enforce": "keeps pods to their classes by the control groups of kubelet's pods",
    "enforce-network": "shares the bandwidth of the node's network out among classes of pods",
    "enforce-cores": "shares caches, memory bandwidth and cores out among classes of pods",
    "enforce-kernel": "sets what the kernel decides for the node as a whole",
    "enforce-perf": "counts what processes do, by the processor's own counters",
}
ALWAYS_THERE: Final = ("/sys/fs", "/sys/kernel/mm", "/sys", "/dev")
"""Folders that every node has. What is below may be missing, and a missing mount would keep the agent from starting."""
OF_THE_CONTAINER: Final = "/proc"
"""Nothing can be mounted there: what a strategy needs of it, it sees by the namespaces and rights that it names."""
SEEN_AS_ON_THE_HOST: Final = "/sys"
HOST: Final = "/host"


def files() -> dict[Path, str]:
    """Every file, by its path."""
    found: dict[Path, str] = {}
    for component, purpose in PURPOSES.items():
        strategies = [each for each in STRATEGIES if each.component == component]
        if strategies:
            found[FOLDER / component / "kustomization.yaml"] = _kustomization(component, purpose)
            found[FOLDER / component / "agent.yaml"] = _patch(component, strategies)
    return found


def _kustomization(component: Component, purpose: str) -> str:
    if component == BASE:
        head = (
            f"# The node agent acts, instead of only measuring and telling what it would do: it {purpose}.\n"
            "# Without this component it changes nothing.\n"
        )
    else:
        head = f"# The node agent {purpose}, beside what `enforce` has it do, which this needs.\n"
    return f"{head}apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n  - path: agent.yaml\n"


def _patch(component: Component, strategies: list[Strategy]) -> str:
    names = ", ".join(each.name for each in strategies)
    lines = [
        "# Written by tools/agent_components.py from the registry of strategies. What the node agent needs for",
        f"# {names},",
        "# and nothing else: the rest stays as the base says.",
        *_tools(strategies),
        "apiVersion: apps/v1",
        "kind: DaemonSet",
        "metadata:",
        "  name: node-qos-enforcer",
        "  namespace: berth-nodes",
        "spec:",
    ]
    if component == BASE:
        lines += [
            "  # The next agent of a node starts before this one ends, and takes over what it holds as it is.",
            "  updateStrategy:",
            "    rollingUpdate: {maxSurge: 10%, maxUnavailable: 0}",
        ]
    if any(each.needs.host_network for each in strategies):
        lines += [
            "  # In the node's own network two agents cannot listen at once: one ends before the next starts.",
            "  updateStrategy:",
            "    rollingUpdate: {maxSurge: 0, maxUnavailable: 10%}",
        ]
    lines += ["  template:", "    spec:", *_pod(component, strategies)]
    lines += ["      containers:", "        - name: node-qos-enforcer", *_container(component, strategies)]
    volumes = list(_volumes(component, strategies))
    return "\n".join([*lines, *(["      volumes:", *volumes] if volumes else [])]) + "\n"


def _tools(strategies: list[Strategy]) -> Iterable[str]:
    """Which programs the image has to have, and which image has them."""
    called = [f"{', '.join(each.needs.tools)} ({each.name})" for each in strategies if each.needs.tools]
    if called:
        yield f"# Programs of the image: {'; '.join(called)}. The image node-qos-enforcer-tools has them"
        yield "# (tools/images/with_tools.Dockerfile): name it in your overlay's `images`."


def _pod(component: Component, strategies: list[Strategy]) -> Iterable[str]:
    if component == BASE:
        yield "      # Files of control groups belong to root and are writable for their owner alone. Root without"
        yield "      # capabilities may write what root owns, and nothing that a file's mode could not also let it."
        yield "      securityContext: {runAsNonRoot: false, runAsUser: 0, runAsGroup: 0}"
    for field, who in (
        ("hostPID", [each.name for each in strategies if each.needs.host_pid]),
        ("hostNetwork", [each.name for each in strategies if each.needs.host_network]),
    ):
        if who:
            yield f"      {field}: true # {', '.join(who)}"
    if any(each.needs.host_network for each in strategies):
        yield "      dnsPolicy: ClusterFirstWithHostNet"


def _container(component: Component, strategies: list[Strategy]) -> Iterable[str]:
    yield "          env:"
    if component == BASE:
        yield '            - {name: BERTH_ENFORCE, value: "true"}'
        yield "            - {name: BERTH_STRATEGY_FILE, value: /var/lib/berth/strategy.json}"
        yield "            - {name: BERTH_PODS_FILE, value: /var/lib/berth/pods.json}"
        yield "            - {name: BERTH_PEAKS_FILE, value: /var/lib/berth/peaks}"
        yield "            - {name: BERTH_JOURNAL_FILE, value: /var/lib/berth/journal.json}"
    else:
        yield f'            - {{name: BERTH_{component.replace("-", "_").upper()}, value: "true"}}'
    mounts = _mounts(strategies)
    if any(not path.startswith(SEEN_AS_ON_THE_HOST) for path in mounts):
        yield f"            - {{name: BERTH_HOST_ROOT, value: {HOST}}}"
    yield from _rights(strategies)
    if component == BASE or mounts:
        yield "          volumeMounts:"
    if component == BASE:
        yield "            # What holds each group, below kubelet's own."
        where = "mountPath: /host/cgroup, readOnly: false, mountPropagation: HostToContainer"
        yield f"            - {{name: cgroup, {where}}}"
        yield "            # The last strategy and pods, so that a node that restarts without the bus keeps to them;"
        yield "            # what pods are predicted to need; what files had before, so that it can be given back."
        yield "            - {name: strategy, mountPath: /var/lib/berth}"
    for path, (mount, who) in mounts.items():
        where = path if path.startswith(SEEN_AS_ON_THE_HOST) else f"{HOST}{path}"
        rights = "readOnly: false" if mount.writes else "readOnly: true"
        yield f"            # {', '.join(who)}"
        yield (
            f"            - {{name: {_volume(path)}, mountPath: {where}, {rights}, mountPropagation:"
            f" {'Bidirectional' if mount.shares else 'HostToContainer'}}}"
        )


def _rights(strategies: list[Strategy]) -> Iterable[str]:
    """Capabilities, or all of them where the kernel's own files are read only without."""
    privileged = [each.name for each in strategies if each.needs.privileged]
    capabilities: dict[str, list[str]] = {}
    for each in strategies:
        for name in each.needs.capabilities:
            capabilities.setdefault(name, []).append(each.name)
    if privileged:
        yield f"          # {', '.join(privileged)}: files of the kernel are read only for everybody else."
        yield "          securityContext: {privileged: true, allowPrivilegeEscalation: true}"
    elif capabilities:
        who = "; ".join(f"{name}: {', '.join(names)}" for name, names in sorted(capabilities.items()))
        yield f"          # {who}"
        yield f"          securityContext: {{capabilities: {{add: [{', '.join(sorted(capabilities))}]}}}}"


def _mounts(strategies: list[Strategy]) -> dict[str, tuple[Mount, list[str]]]:
    """What is mounted, by path of the host, and for whom."""
    found: dict[str, tuple[Mount, list[str]]] = {}
    for strategy in strategies:
        for mount in strategy.needs.mounts:
            if mount.path.startswith(OF_THE_CONTAINER):
                continue
            path = next((each for each in ALWAYS_THERE if f"{mount.path}/".startswith(f"{each}/")), mount.path)
            before, who = found.get(path, (Mount(path), []))
            merged = Mount(path, before.writes or mount.writes, before.shares or mount.shares)
            found[path] = (merged, list(dict.fromkeys([*who, strategy.name])))
    return found


def _volumes(component: Component, strategies: list[Strategy]) -> Iterable[str]:
    if component == BASE:
        yield "        - name: strategy"
        yield "          hostPath: {path: /var/lib/berth-node-qos, type: DirectoryOrCreate}"
    for path in _mounts(strategies):
        kind = "Directory" if path in ALWAYS_THERE else "DirectoryOrCreate"
        yield f"        - name: {_volume(path)}"
        yield f"          hostPath: {{path: {path}, type: {kind}}}"


def _volume(path: str) -> str:
    return path.strip("/").replace("/", "-")


def main(arguments: list[str]) -> int:
    """Write the files, or say which are not what they would be."""
    stale = [path for path, text in files().items() if not path.exists() or path.read_text() != text]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what the registry says: run tools/agent_components.py")
        return 1 if stale else 0
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
