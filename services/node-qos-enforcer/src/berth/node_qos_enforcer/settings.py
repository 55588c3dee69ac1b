"""Settings of the node agent; the README says more of each."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from berth.contracts.subjects import escape
from berth.runtime import ServiceSettings

KUBERNETES_NODE_NAME = "NODE_NAME"
"""What manifests of node agents commonly call the downward-API variable; counts when BERTH_NODE_NAME is not set."""


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """Settings of the node agent, from `BERTH_<FIELD>`."""

    node_name: Annotated[
        str, Meta(max_length=253, description="name of the node; NODE_NAME counts, too; else the host's name")
    ] = ""
    interval_s: Annotated[
        float, Meta(ge=0.1, le=3600, description="time between two looks at the node, in seconds")
    ] = 10.0
    metrics_interval_s: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="longest time between two messages of use; it is told at once when it changes by a tenth",
        ),
    ] = 60.0
    enforce: Annotated[
        bool, Meta(description="write to the best-effort group what the strategy says; off: only report what would be")
    ] = False
    enforce_network: Annotated[
        bool, Meta(description="beside enforce: strategies of the network, whose rights enforce-network gives")
    ] = False
    enforce_cores: Annotated[
        bool, Meta(description="beside enforce: strategies of caches and cores, whose rights enforce-cores gives")
    ] = False
    enforce_kernel: Annotated[
        bool, Meta(description="beside enforce: settings of the kernel, whose rights enforce-kernel gives")
    ] = False
    enforce_perf: Annotated[
        bool, Meta(description="beside enforce: what the processor counts, whose rights enforce-perf gives")
    ] = False
    enforce_interval_s: Annotated[
        float, Meta(ge=0.1, le=60, description="time between two looks while enforcing, in seconds")
    ] = 1.0
    strategy_file: Annotated[str, Meta(description="where the last strategy is kept over restarts; empty: nowhere")] = (
        ""
    )
    pods_file: Annotated[
        str, Meta(description="where is kept what is known of the node's pods, over restarts; empty: nowhere")
    ] = ""
    peaks_file: Annotated[
        str, Meta(description="where is kept what pods have used at their peaks, over restarts; empty: nowhere")
    ] = ""
    peaks_cold_s: Annotated[
        float, Meta(ge=60, le=2_592_000, description="a pod known for no longer leaves nothing to lend, in seconds")
    ] = 86_400.0
    journal_file: Annotated[
        str,
        Meta(description="where is kept what files had before, over restarts; empty: nowhere"),
    ] = ""
    inventory_file: Annotated[
        str,
        Meta(description="where the node's last inventory is kept over restarts, beside nri_socket; empty: nowhere"),
    ] = ""
    give_back: Annotated[
        bool, Meta(description="give back whatever was written to on the node, and hold nothing; before uninstalling")
    ] = False
    nri_socket: Annotated[
        str,
        Meta(description="socket of the container runtime's plugins, to give containers what was granted; empty: off"),
    ] = ""
    nri_index: Annotated[
        str, Meta(pattern="^[0-9]{2}$", description="two digits: the runtime asks its plugins in this order")
    ] = "00"
    nri_refuse: Annotated[
        bool, Meta(description="refuse a container that cannot have its pod's devices; off: it begins without them")
    ] = True
    vgpu_library: Annotated[str, Meta(min_length=1, description="HAMi-core on the node, for parts of a GPU")] = (
        "/usr/local/vgpu/libvgpu.so"
    )
    vgpu_monitor: Annotated[
        bool, Meta(description="containers with part of a GPU keep figures of its use, which become metrics")
    ] = False
    vgpu_old_names: Annotated[
        bool, Meta(description="show these metrics under the names of before HAMi 2.10 as well")
    ] = False
    devices: Annotated[
        bool,
        Meta(description="report devices of all vendors, and their health; what they are goes into a Device object"),
    ] = False
    report_interval_s: Annotated[
        float, Meta(ge=0.1, le=60, description="time between two looks at what is on the node, in seconds")
    ] = 2.0
    cpus: Annotated[
        bool,
        Meta(
            description="report CPUs, NUMA nodes and what kubelet does with them; a NodeResourceTopology is made of it"
        ),
    ] = False
    kubelet_root: Annotated[
        str, Meta(description="where kubelet's files are mounted; empty: they are not to be seen")
    ] = "/var/lib/kubelet"
    host_root: Annotated[
        str,
        Meta(description="below what the node's /usr/local/vgpu and /tmp/vgpulock are mounted; empty: at their place"),
    ] = ""
    kubelet_url: Annotated[
        str,
        Meta(
            pattern="^(https?://.*)?$",
            description="where kubelet serves its configuration, https://ADDRESS:10250; empty: it is not asked",
        ),
    ] = ""
    kubelet_config_file: Annotated[
        str,
        Meta(description="kubelet's configuration file, read where kubelet_url is empty; empty: it is not read"),
    ] = ""
    kubelet_token_file: Annotated[str, Meta(description="file of the token that kubelet is shown; empty: none")] = ""
    kubelet_ca_file: Annotated[
        str, Meta(description="what kubelet's certificate is checked by; empty: the authorities of the system")
    ] = ""
    podresources_socket: Annotated[
        str, Meta(description="kubelet's PodResources, to report what containers hold by it; empty: it is not asked")
    ] = ""
    podresources_proxy: Annotated[
        str,
        Meta(description="where PodResources are served with the devices of pods' records as well; empty: nowhere"),
    ] = ""
    dev_root: Annotated[str, Meta(min_length=1, description="where the node's /dev is mounted")] = "/dev"
    device_files: Annotated[
        str, Meta(min_length=1, description="where device daemons write what they find, a JSON array in each file")
    ] = "/var/run/koordlet/xpu-device-infos"
    proc_root: Annotated[str, Meta(min_length=1, description="where the node's /proc is mounted")] = "/proc"
    sys_root: Annotated[str, Meta(min_length=1, description="where the node's /sys is mounted")] = "/sys"
    cgroup_root: Annotated[
        str, Meta(description="where the node's control groups are mounted; empty: fs/cgroup below sys_root")
    ] = ""

    def node_or_default(self) -> str:
        """Return the node's name: that of the settings, else that of the host (which is what kubelet takes, too)."""
        return self.node_name or socket.gethostname().lower()

    def inbox(self) -> str:
        """Each agent hears the answers to its own questions only."""
        return escape(self.node_or_default())

    def cgroup_or_default(self) -> str:
        """Return where control groups are."""
        return self.cgroup_root or f"{self.sys_root.rstrip('/')}/fs/cgroup"


def with_kubernetes_name(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with NODE_NAME standing in for BERTH_NODE_NAME where that is not set."""
    name = environ.get("BERTH_NODE_NAME", "").strip() or environ.get(KUBERNETES_NODE_NAME, "")
    return {**environ, "BERTH_NODE_NAME": name}
