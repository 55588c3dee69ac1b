"""KubeSchedulerConfiguration, `kubescheduler.config.k8s.io/v1`: from its text to profiles, as kube-scheduler reads it.

Defaults are those of release 1.34 and are merged as there. What Berth cannot honour, and what nobody knows, is a
problem that names it; a text with problems gives no profiles at all.
"""

from berth.rules.scheduler_config.args import (
    BalancedArgs,
    BerthArgs,
    DeviceShareArgs,
    DeviceStrategy,
    FitArgs,
    FitPlusArgs,
    FragmentationArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NumaArgs,
    NumaStrategy,
    PlusResource,
    PodTopologySpreadArgs,
    PreemptionArgs,
    Resource,
    ScarceArgs,
    ScoringStrategy,
    Shape,
    ShapePoint,
    TypicalPod,
    VolumeBindingArgs,
)
from berth.rules.scheduler_config.elastic_quota import ElasticQuotaArgs
from berth.rules.scheduler_config.load_aware import LoadAwareArgs
from berth.rules.scheduler_config.node_cost import FillingArgs, NodeCostArgs, TurningOverArgs
from berth.rules.scheduler_config.profiles import DEFAULT, Decides, Profile, SchedulerConfig
from berth.rules.scheduler_config.quota_sharing import sharing_of
from berth.rules.scheduler_config.read import read_scheduler_config
from berth.rules.scheduler_config.reservation import ReservationArgs
from berth.rules.scheduler_config.shapes import Args

__all__ = [
    "DEFAULT",
    "Args",
    "BalancedArgs",
    "BerthArgs",
    "Decides",
    "DeviceShareArgs",
    "DeviceStrategy",
    "ElasticQuotaArgs",
    "FillingArgs",
    "FitArgs",
    "FitPlusArgs",
    "FragmentationArgs",
    "InterPodAffinityArgs",
    "LoadAwareArgs",
    "NodeAffinityArgs",
    "NodeCostArgs",
    "NumaArgs",
    "NumaStrategy",
    "PlusResource",
    "PodTopologySpreadArgs",
    "PreemptionArgs",
    "Profile",
    "ReservationArgs",
    "Resource",
    "ScarceArgs",
    "SchedulerConfig",
    "ScoringStrategy",
    "Shape",
    "ShapePoint",
    "TurningOverArgs",
    "TypicalPod",
    "VolumeBindingArgs",
    "read_scheduler_config",
    "sharing_of",
]
