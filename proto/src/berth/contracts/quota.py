"""QUOTA: how much each quota group may use now, written by quota-manager alone. Limits and mappings, never use."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem
from berth.contracts.kube import Requirement


class QuotaRules(Part, frozen=True, kw_only=True):
    """Who pays and how much, as quota-manager is set; the same in every group. What a node has never depends on it.

    Without `uses_default` only pods that name a group belong to one. `ignores_overhead`: the overhead of a pod is
    charged to no group. `ignores_terminating`: nobody pays for a pod from the moment its deletion is asked for.
    `checks_parents`: the runtime of every group above binds, too, and not its max alone.
    `hooks` names the plug-ins that have a say in what a pod costs its group: where there are any, a pod that is not
    bound is charged and refused as the `PodCharge` of its class says, and waits until there is one. `hook_resources`
    are the names of what they may charge: a group may use its max of them, and its min promises nothing to share.
    """

    uses_default: bool = True
    ignores_overhead: bool = False
    ignores_terminating: bool = False
    checks_parents: bool = False
    hooks: list[str] = []
    hook_resources: list[str] = []


class QuotaGroup(Message, frozen=True, kw_only=True, tag="quotagroup.set.v1"):
    """The limits of one group.

    `ancestors` lists the groups above it, nearest first, without the root. `runtime` is what it may use now, `limits`
    the names of resources that it limits at all (the keys of its `max`); a resource not in `limits` is free.
    Non-preemptible pods may use `min` alone. `request` is what its subtree asks for, `lends` whether others may use an
    idle `min`. `namespaces` are mapped to this group when their pods name none.
    `effective_min` is the part of `min` that the total of the level can honour: what is lent to others comes back up to
    it, by eviction where they don't leave by themselves.
    `moved` is the revision at which the group came below its present parent, or to the top of its tree, 0 if it was
    never elsewhere: what is used of this tree, and of those it was in before, from then on is used under at least this
    revision. `former_trees` are those: a solver may still charge it there. The groups below it came along.
    `nodes` are what the labels of a node have to say so that pods of the group may go there: those of its tree's
    profile, all of them; none restricts nothing.
    `over_since_ms` is since when the group has used more than its runtime of something, unix time in milliseconds; 0:
    it does not.
    `revision` rises with every change but one of `request`, `problems` or `over_since_ms` and never falls, also over
    restarts: an account stamp names the newest revision used on it.
    """

    tree: str
    name: str
    revision: Integer
    parent: str = ""
    ancestors: list[str] = []
    is_parent: bool = False
    limits: list[str] = []
    min: dict[str, Integer] = {}
    max: dict[str, Integer] = {}
    runtime: dict[str, Integer] = {}
    request: dict[str, Integer] = {}
    lends: bool = True
    namespaces: list[str] = []
    problems: list[Problem] = []
    moved: Integer = 0
    effective_min: dict[str, Integer] = {}
    nodes: list[Requirement] = []
    rules: QuotaRules = QuotaRules()
    former_trees: list[str] = []
    over_since_ms: Integer = 0


class HookRefusal(Part, frozen=True, kw_only=True):
    """A hook keeps a pod from being charged to its group: which hook, and what it says about it. `has_failed`: it says
    nothing about the pod, for it gave no answer that can be used; it is asked again by and by."""

    hook: str
    message: str
    has_failed: bool = False


class PodCharge(Message, frozen=True, kw_only=True, tag="podcharge.set.v1"):
    """What hooks say of the pods of one class that are not bound (docs/quota-hooks.md).

    `id` is that of the class (`berth.rules.quota_hooks`). `surcharge` is what the group that pays is charged for each
    of them beyond its request. `group` is the group that would pay, for which hooks were asked whether they refuse;
    empty: nobody would.
    """

    id: str
    group: str = ""
    surcharge: dict[str, Integer] = {}
    refusals: list[HookRefusal] = []
