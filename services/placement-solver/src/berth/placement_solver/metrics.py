"""Metrics of the placement solver. Labels never carry names of objects."""

from __future__ import annotations

from berth.telemetry.metrics import counter, gauge, histogram

PLACED = counter("berth_solver_placed_total", "Pods and reservations decided and committed.")
REFUSED = counter("berth_solver_refused_total", "Refusals by the first reason.", ["reason"])
PLANS = counter("berth_solver_plans_total", "Plans by outcome of their commit.", ["outcome"])
CONFLICTS = counter("berth_solver_conflicts_total", "Plans solved again because their commit was not accepted.")
REJECTED_PLANS = counter("berth_solver_rejected_plans_total", "Plans that the independent verifier rejected.")
MISHAPS = counter(
    "berth_solver_plugin_errors_total", "Errors that a plugin raised; whoever it was asked about waits.", ["plugin"]
)
REJECTED_JOINT_PLANS = counter(
    "berth_solver_rejected_joint_plans_total", "Plans of the optimiser that the independent verifier rejected."
)
BROKEN_MESSAGES = counter(
    "berth_solver_broken_messages_total", "Messages that could not be read, by bucket.", ["bucket"]
)
SOLVE_SECONDS = histogram("berth_solver_solve_seconds", "Time from taking a batch to a verified plan.")
COMMIT_SECONDS = histogram("berth_solver_commit_seconds", "Time from a verified plan to the ledger's answer.")
OPTIMISER = counter("berth_solver_optimiser_total", "Answers of the optimiser by kind.", ["answer"])
PRICES = counter("berth_solver_prices_total", "Answers of the price maker by what became of them.", ["answer"])
IMPROVED = counter("berth_solver_improved_total", "Plans that the optimiser made better.")
GAP = gauge("berth_solver_optimiser_gap", "Relative gap of the last optimised batch; -1 when unknown.")
BOUNDS = counter(
    "berth_solver_bounds_total",
    "Batches by whether a plan could place more: optimal, bounded or unknown, and why it is unknown.",
    ["status", "problem"],
)
BOUND_GAP = gauge(
    "berth_solver_bound_gap",
    "Relative gap of the batch that was judged last to the bound of all plans; -1 when unknown.",
)
BOUND_SECONDS = histogram("berth_solver_bound_seconds", "Time from the question for a bound to its answer.")
NOMINATED = counter("berth_solver_nominated_total", "Pods for which others were chosen to leave.")
GROWN = counter("berth_solver_grown_total", "Reservations that were decided to hold more where they are.")
REVOKED = counter("berth_solver_revoked_total", "Pods that were chosen to leave quota groups over their runtime.")
GANG_PROBLEMS = gauge(
    "berth_solver_gang_problems", "Things that are wrong with the settings of gangs that this solver decides now."
)
WAITING_GANG_GROUPS = gauge(
    "scheduler_waiting_gang_group_number", "Gang groups of which members wait (the name is Koordinator's)."
)
WAITING = gauge("berth_solver_waiting", "Pods and reservations that wait for a node.")
NODES = gauge("berth_solver_nodes", "Nodes known and alive.")
CONFIGURATION_PROBLEMS = gauge(
    "berth_solver_configuration_problems", "Things that are wrong with the KubeSchedulerConfiguration now."
)
CONFIGURATIONS_REFUSED = gauge(
    "berth_solver_configurations_refused", "Texts of a KubeSchedulerConfiguration that could not be used so far."
)
NPU_TEMPLATE_PROBLEMS = gauge(
    "berth_solver_npu_template_problems", "Things that are wrong with the ConfigMaps of sizes of virtual NPUs now."
)
REPORTS_REFUSED = gauge(
    "berth_solver_reports_refused", "Reports of what nodes use with something in them that could not be used so far."
)
LEDGER_FULL = gauge("berth_solver_ledger_full", "1 while the ledger has no space for a plan of this solver.")
ESTIMATES_RIGHT = gauge(
    "berth_solver_estimates_right",
    "Part of the last estimates of starts that came true, by level.",
    ["level"],
)
ESTIMATES_KNOWN = gauge("berth_solver_estimates_known", "Estimates of starts that those parts are of.")
WHAT_IF = counter("berth_solver_what_if_total", "Questions what would happen, by outcome of their answer.", ["outcome"])
WHAT_IF_SECONDS = histogram(
    "berth_solver_what_if_seconds", "Time to answer what would happen, in a copy of the process."
)
