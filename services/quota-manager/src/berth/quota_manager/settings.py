"""The knobs of quota-manager."""

from typing import Annotated, Final

from msgspec import Meta

from berth.contracts.quota import QuotaRules
from berth.quota_manager.core.engine import Rules
from berth.quota_manager.core.slipped import Admission
from berth.rules.quota_admission.quota import Switches
from berth.runtime import Seconds, ServiceSettings
from berth.runtime.shared_settings import LEASE_TTL_S, LeaseTtl, ReadPause, Window

SERVICE: Final = "quota-manager"


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """Read from the environment. The `quota_` switches bear the meaning of the protocol's arguments and gates."""

    nats_read_pause_s: ReadPause = 0.01
    window_s: Window = 0.005
    writeback_interval_s: Annotated[
        Seconds, Meta(description="least time between two writes of one ElasticQuota's status")
    ] = 2.0
    writeback_retry_s: Annotated[
        Seconds, Meta(description="after this long a write that had no effect is asked for again")
    ] = 30.0
    writebacks_per_s: Annotated[
        int, Meta(ge=1, le=10_000, description="most writes to all ElasticQuotas together in a second")
    ] = 100
    overuse_grace_s: Annotated[
        Seconds, Meta(description="how long a group must be over its runtime before an event says so")
    ] = 5.0
    lease_ttl_s: LeaseTtl = LEASE_TTL_S
    scheduler_config_file: Annotated[
        str,
        Meta(description="file with the solvers' KubeSchedulerConfiguration: its ElasticQuotaArgs go before quota_*"),
    ] = ""
    quota_scale_min: Annotated[
        bool, Meta(description="enableMinQuotaScale: minimums shrink in proportion when they exceed the total")
    ] = True
    quota_runtime: Annotated[bool, Meta(description="enableRuntimeQuota; off, the max is the limit")] = True
    quota_guarantee_usage: Annotated[
        bool, Meta(description="ElasticQuotaGuaranteeUsage: what is used is guaranteed, idle minimum is not lent")
    ] = False
    quota_default_group: Annotated[
        bool, Meta(description="off (DisableDefaultQuota): only pods that name a group belong to one")
    ] = True
    quota_ignore_terminating: Annotated[
        bool, Meta(description="ElasticQuotaImmediateIgnoreTerminatingPod: pods count until deletion is requested")
    ] = False
    quota_ignore_overhead: Annotated[
        bool, Meta(description="ElasticQuotaIgnorePodOverhead: the overhead of a pod is charged to no group")
    ] = False
    quota_check_parents: Annotated[
        bool,
        Meta(description="enableCheckParentQuota: the runtime of each group above binds, not its max alone"),
    ] = False
    quota_strict_keys: Annotated[
        bool, Meta(description="report quotas whose max names other resources than their parent's (else: further ones)")
    ] = False
    quota_parent_pods: Annotated[
        bool, Meta(description="SupportParentQuotaSubmitPod; off, parents that pods name are reported")
    ] = True
    quota_namespace: Annotated[
        str, Meta(description="quotaGroupNamespace: root, system and default group are made there; empty: nowhere")
    ] = "koordinator-system"
    quota_admission: Annotated[
        bool, Meta(description="EnableQuotaAdmission: report quotas whose pods ask for more than admission lets in")
    ] = False
    quota_hooks: Annotated[
        str, Meta(description="names of the hook plug-ins that are asked, separated by commas; empty: none")
    ] = ""
    quota_hooks_fail_open: Annotated[
        bool, Meta(description="a hook that fails counts as saying nothing; off, pods are refused for it")
    ] = False
    quota_hook_timeout_s: Annotated[
        Seconds, Meta(description="how long one call of a hook may take before it has failed; until then pods wait")
    ] = 5.0

    @property
    def hooks(self) -> list[str]:
        """The names of the hook plug-ins."""
        return [name for each in self.quota_hooks.split(",") if (name := each.strip())]

    @property
    def admission(self) -> Admission:
        """The same for what admission would have refused."""
        switches = Switches(self.quota_strict_keys, self.quota_guarantee_usage, self.quota_parent_pods)
        return Admission(switches, self.quota_admission)

    @property
    def rules(self) -> Rules:
        """The switches as the core takes them."""
        return Rules(
            scales_min=self.quota_scale_min,
            guarantees_use=self.quota_guarantee_usage,
            uses_runtime=self.quota_runtime,
            charging=QuotaRules(
                uses_default=self.quota_default_group,
                ignores_overhead=self.quota_ignore_overhead,
                ignores_terminating=self.quota_ignore_terminating,
                checks_parents=self.quota_check_parents,
            ),
        )
