"""The dashboards. Every expression is evaluated by tests/integration/test_dashboards.py and must return data."""

from typing import Final

from tools.dashboards.limits import CAP_SOURCES, CLASS_LIMITS, OVERSUBSCRIPTION, POWER_DOMAINS
from tools.dashboards.panels import Board, Form, Row, line, number

#: Series that come from several replicas or a scrape in a change of leader count once for each node.
_STATES: Final = "max by (node, state) (joulie_operator_node_state)"
_POWER: Final = "max by (node) (joulie_operator_node_power_watts)"
_CAPPED: Final = "max by (node) (joulie_operator_node_capped_power_watts)"
_PROFILES: Final = "max by (node, profile) (joulie_operator_node_profile_label)"
#: A policy has one of both.
_SLEEP_WATTS: Final = "joulie_operator_sleep_saved_watts or joulie_operator_sleep_recommended_watts"
_INSTANCE: Final = "instance, job"


def _process(service: str) -> Row:
    joined = f'* on ({_INSTANCE}) group_left (version) joulie_build_info{{service="{service}"}}'
    return Row(
        "Process",
        (
            line("CPU", "percentunit", (f"rate(process_cpu_seconds_total[2m]) {joined}", "{{instance}} {{version}}")),
            line("Resident memory", "bytes", (f"process_resident_memory_bytes {joined}", "{{instance}}")),
        ),
    )


def _quantile(quantile: float, metric: str) -> str:
    return f"histogram_quantile({quantile}, sum by (le) (rate({metric}_bucket[5m])))"


def _latency(verb: str) -> tuple[tuple[str, str], tuple[str, str]]:
    metric = f"joulie_scheduler_{verb}_duration_seconds"
    return (_quantile(0.99, metric), "p99"), (_quantile(0.5, metric), "p50")


def _of_zones(what: str) -> str:
    return f"sum by (instance, zone) (joulie_zone_{what}_milli)"


OVERVIEW: Final = Board(
    "overview",
    "Joulie / Overview",
    (
        Row(
            "Now",
            (
                number("Managed nodes", "short", f"count({_STATES} == 1)"),
                number("Power", "watt", f"sum({_POWER})", "Sum over nodes whose power is known."),
                number(
                    "Power unknown",
                    "short",
                    f"count({_STATES} == 1) - count({_POWER})",
                    "Managed nodes without a power figure.",
                ),
                number(
                    "Power measured",
                    "percentunit",
                    'count(max by (node) (joulie_operator_node_power_watts{quality="measured"})) / '
                    f"count({_STATES} == 1)",
                    "Share of the managed nodes whose power is measured rather than modelled.",
                ),
                number(
                    "Of what caps allow",
                    "percentunit",
                    f"sum({_POWER}) / sum({_CAPPED} and on (node) {_POWER})",
                ),
                number(
                    "Blocked or failed caps",
                    "short",
                    'count(max by (node, subsystem) (joulie_control_result{result=~"blocked|error"})) or vector(0)',
                ),
            ),
        ),
        Row(
            "Power and profiles",
            (
                line(
                    "Power by profile",
                    "watt",
                    (f"sum by (profile) ({_POWER} * on (node) group_right () {_PROFILES})", "{{profile}}"),
                    form=Form.STACKED,
                ),
                line(
                    "Power and what caps allow",
                    "watt",
                    (f"sum({_POWER})", "power"),
                    (f"sum({_CAPPED})", "allowed by caps"),
                ),
                line("Nodes by state", "short", (f"count by (state) ({_STATES} == 1)", "{{state}}"), form=Form.STACKED),
                line(
                    "Transitions",
                    "short",
                    (
                        "sum by (from_state, to_state, result) (increase(joulie_operator_state_transitions_total[5m]))",
                        "{{from_state}} to {{to_state}}, {{result}}",
                    ),
                    doc="In the last five minutes.",
                ),
            ),
        ),
        Row(
            "Enforcement and scheduling",
            (
                line(
                    "Results of caps",
                    "short",
                    (
                        "count by (subsystem, result) (max by (node, subsystem, result) (joulie_control_result))",
                        "{{subsystem}} {{result}}",
                    ),
                    form=Form.STACKED,
                ),
                line(
                    "Pods scored",
                    "reqps",
                    (
                        "sum by (workload_class) (rate(joulie_scheduler_prioritize_requests_total[2m]))",
                        "{{workload_class}}",
                    ),
                    doc="Requests of kube-scheduler to /prioritize per second.",
                ),
                line(
                    "Stale twins",
                    "short",
                    ("sum(max by (node) (joulie_scheduler_stale_twin_data))", "stale"),
                    doc="Nodes whose twin is missing or too old: the extender gives them no preference.",
                ),
                line(
                    "Nodes nearest to their caps",
                    "percentunit",
                    (f"topk(20, {_POWER} / {_CAPPED})", "{{node}}"),
                    form=Form.TABLE,
                ),
            ),
        ),
    ),
)


def _per_hour(what: str) -> str:
    return f'sum by (lever) (increase(joulie_{what}_joules_total{{bound="middle"}}[1h]))'


OPERATOR: Final = Board(
    "operator",
    "Joulie / Operator",
    (
        Row(
            "Plans",
            (
                line(
                    "Duration of a plan",
                    "s",
                    (_quantile(0.99, "joulie_operator_reconcile_duration_seconds"), "p99"),
                    (_quantile(0.5, "joulie_operator_reconcile_duration_seconds"), "p50"),
                ),
                line(
                    "Writes",
                    "wps",
                    ("sum by (kind, result) (rate(joulie_operator_writes_total[2m]))", "{{kind}} {{result}}"),
                ),
                line(
                    "Transitions by result",
                    "short",
                    ("sum by (result) (increase(joulie_operator_state_transitions_total[5m]))", "{{result}}"),
                ),
                line(
                    "Nodes by quality of their power",
                    "short",
                    ("count by (source, quality) (joulie_operator_node_power_watts)", "{{source}}, {{quality}}"),
                    form=Form.STACKED,
                ),
                line(
                    "Power of nodes",
                    "watt",
                    (f"topk(20, {_POWER})", "{{node}}"),
                    doc="The 20 nodes that draw most.",
                ),
                line(
                    "Densest nodes",
                    "short",
                    ("topk(20, sum by (node) (joulie_operator_node_compute_density))", "{{node}}"),
                    form=Form.TABLE,
                ),
            ),
        ),
        Row(
            "Sleeping nodes",
            (
                line(
                    "Nodes by state of sleep",
                    "short",
                    ("sum by (state) (max by (policy, state) (joulie_operator_sleep_nodes))", "{{state}}"),
                    form=Form.STACKED,
                    doc="Of all NodeSleepPolicies; none where operator.sleep.enabled is not set.",
                ),
                line(
                    "Servers that Joulie switched off",
                    "short",
                    ("max by (reason) (joulie_operator_sleep_servers_off)", "{{reason}}"),
                    form=Form.STACKED,
                    doc="By why they are not on; node_missing and unconfirmed are accounted for by no record.",
                ),
                line(
                    "Power that sleep saves",
                    "watt",
                    (f"max by (__name__, policy) ({_SLEEP_WATTS})", "{{policy}} {{__name__}}"),
                    doc="An estimate. Saved in mode Act, and what would be in mode Recommend.",
                ),
                line(
                    "Transitions of sleep",
                    "short",
                    (
                        "sum by (from_state, to_state, reason) (increase(joulie_operator_sleep_transitions_total[5m]))",
                        "{{from_state}} to {{to_state}}, {{reason}}",
                    ),
                    doc="In the last five minutes.",
                ),
                line(
                    "Time to wake",
                    "s",
                    (_quantile(0.95, "joulie_operator_sleep_wake_duration_seconds"), "p95"),
                    (_quantile(0.5, "joulie_operator_sleep_wake_duration_seconds"), "p50"),
                    doc="From the decision to wake a node until it takes pods.",
                ),
            ),
        ),
        POWER_DOMAINS,
        OVERSUBSCRIPTION,
        Row(
            "Savings, where they are estimated",
            (
                line(
                    "Saved watts, by lever",
                    "watt",
                    ("sum by (lever, bound) (joulie_saved_watts)", "{{lever}}, {{bound}}"),
                    doc="What is saved now, with its interval; below 0 where more is drawn. docs/savings.md",
                ),
                line(
                    "Saved energy, by lever",
                    "joule",
                    (
                        f"{_per_hour('saved')} - {_per_hour('spent')}",
                        "{{lever}}",
                    ),
                    doc="In the last hour, the middle of the interval.",
                ),
            ),
        ),
        _process("joulie-operator"),
    ),
)

AGENT: Final = Board(
    "agent",
    "Joulie / Agent",
    (
        Row(
            "Enforcement",
            (
                line(
                    "Results of caps by reason",
                    "short",
                    (
                        "count by (subsystem, result, reason) (joulie_control_result)",
                        "{{subsystem}} {{result}} {{reason}}",
                    ),
                    form=Form.STACKED,
                ),
                line(
                    "Nodes by what holds their CPU power", "short", ("sum by (mode) (joulie_backend_mode)", "{{mode}}")
                ),
                line(
                    "Failed passes",
                    "short",
                    ("sum by (node) (increase(joulie_reconcile_errors_total[5m]))", "{{node}}"),
                ),
                CAP_SOURCES,
            ),
        ),
        Row(
            "CPUs",
            (
                line("Power of packages", "watt", ("topk(20, joulie_rapl_package_total_power_watts)", "{{node}}")),
                line(
                    "Cap per package of the target",
                    "watt",
                    ("topk(20, joulie_policy_cap_watts)", "{{node}} {{policy}}"),
                ),
                line("Throttle by frequency", "percent", ("topk(20, joulie_dvfs_throttle_pct)", "{{node}}")),
                line(
                    "Steps of the frequency loop",
                    "short",
                    ("sum by (action) (increase(joulie_dvfs_actions_total[5m]))", "{{action}}"),
                ),
            ),
        ),
        Row(
            "GPUs",
            (
                line("Power of GPUs", "watt", ("topk(20, joulie_gpu_power_watts)", "{{node}} {{gpu}}")),
                line("Caps of GPUs", "watt", ("topk(20, joulie_gpu_cap_watts)", "{{node}} {{gpu}}")),
            ),
        ),
        CLASS_LIMITS,
        Row(
            "Containers on CPUs (resource manager)",
            (
                line(
                    "Resource managers",
                    "short",
                    ("count(joulie_nri_registered)", "running"),
                    ("sum(joulie_nri_registered)", "registered with a runtime"),
                    ("sum(joulie_container_policy_configuration_valid)", "newest configuration in force"),
                ),
                line(
                    "Time until a runtime has its reply",
                    "s",
                    (_quantile(0.99, "joulie_nri_request_duration_seconds"), "p99"),
                    (_quantile(0.5, "joulie_nri_request_duration_seconds"), "p50"),
                    doc="A runtime does not start a container before that.",
                ),
                line(
                    "Free of CPU zones",
                    "percentunit",
                    (
                        f"bottomk(20, {_of_zones('available')} / ({_of_zones('allocatable')} > 0))",
                        "{{instance}} {{zone}}",
                    ),
                    doc="Pools and balloons with the least left for another container.",
                ),
                line(
                    "Containers and exclusive CPUs",
                    "short",
                    ("sum(joulie_zone_containers)", "containers in zones"),
                    ("sum(joulie_container_exclusive_cpus)", "exclusive CPUs"),
                ),
                line(
                    "Changes of placed containers",
                    "short",
                    ("sum(increase(joulie_container_moves_total[5m]))", "moved"),
                    ("sum(increase(joulie_container_rejections_total[5m]))", "rejected"),
                    ("sum(increase(joulie_container_updates_failed_total[5m]))", "updates failed"),
                    ("sum(increase(joulie_nri_late_replies_total[5m]))", "replies without result"),
                    doc="In the last five minutes.",
                ),
                line(
                    "Updates that are pending", "short", ("topk(20, joulie_container_updates_pending)", "{{instance}}")
                ),
            ),
        ),
        _process("joulie-agent"),
    ),
)

EXTENDER: Final = Board(
    "extender",
    "Joulie / Scheduler extender",
    (
        Row(
            "Requests",
            (
                line("Latency of /filter", "s", *_latency("filter")),
                line("Latency of /prioritize", "s", *_latency("prioritize")),
                line(
                    "Requests per second",
                    "reqps",
                    (
                        "sum by (workload_class) (rate(joulie_scheduler_filter_requests_total[2m]))",
                        "/filter {{workload_class}}",
                    ),
                    (
                        "sum by (workload_class) (rate(joulie_scheduler_prioritize_requests_total[2m]))",
                        "/prioritize {{workload_class}}",
                    ),
                ),
                line("Stale twins", "short", ("sum by (instance) (joulie_scheduler_stale_twin_data)", "{{instance}}")),
                line(
                    "Errors per second",
                    "reqps",
                    (
                        "sum by (verb, reason) (rate(joulie_scheduler_request_errors_total[2m]))",
                        "/{{verb}} {{reason}}",
                    ),
                ),
            ),
        ),
        Row(
            "Scores",
            (
                line(
                    "Headroom of nodes",
                    "percent",
                    ("quantile(0.9, max by (node) (joulie_scheduler_node_headroom_score))", "p90"),
                    ("quantile(0.5, max by (node) (joulie_scheduler_node_headroom_score))", "median"),
                    ("quantile(0.1, max by (node) (joulie_scheduler_node_headroom_score))", "p10"),
                    doc="Percent of the power that a node's caps allow and that is free.",
                ),
                line(
                    "Best nodes",
                    "short",
                    ("topk(20, max by (node, workload_class) (joulie_scheduler_final_node_score))", "{{node}}"),
                    form=Form.TABLE,
                    doc="For the pod of each class that was scored last.",
                ),
            ),
        ),
        _process("joulie-extender"),
    ),
)

OUT_OF_BAND: Final = Board(
    "outofband",
    "Joulie / Out-of-band",
    (
        Row(
            "Whole servers",
            (
                number("BMCs", "short", "count(joulie_bmc_reachable)"),
                number("Answer", "short", "sum(joulie_bmc_reachable)"),
                number("Servers on", "short", "sum(joulie_bmc_power_on)", "Servers whose power state is On."),
                number(
                    "Put to sleep",
                    "short",
                    "sum(max by (node) (joulie_bmc_put_to_sleep))",
                    "Nodes that the operator requests to be off, whether they are off yet or not.",
                ),
                number("Power", "watt", "sum(joulie_bmc_power_watts)", "Of the servers whose BMC measures."),
                line("Power of servers", "watt", ("topk(20, joulie_bmc_power_watts)", "{{node}}")),
                line(
                    "Servers and their CPUs and GPUs",
                    "watt",
                    ("sum(joulie_bmc_power_watts)", "whole servers, by BMC"),
                    (f"sum({_POWER} and on (node) joulie_bmc_power_watts)", "CPUs and GPUs of the same nodes"),
                    doc="The difference is memory, disks, fans and losses of power supplies.",
                ),
                line("Caps of servers", "watt", ("bottomk(20, joulie_bmc_cap_watts)", "{{node}}")),
                line(
                    "Boot times",
                    "s",
                    ("topk(20, joulie_bmc_boot_seconds)", "{{node}}"),
                    doc="95th percentile of the last boots, from the request to the node's readiness.",
                ),
            ),
        ),
        Row(
            "Requests to BMCs",
            (
                line(
                    "Conditions",
                    "short",
                    (
                        "count by (condition, status, reason) (joulie_bmc_condition)",
                        "{{condition}} {{status}} {{reason}}",
                    ),
                    form=Form.TABLE,
                ),
                line(
                    "Duration of a pass",
                    "s",
                    (_quantile(0.99, "joulie_outofband_pass_duration_seconds"), "p99"),
                    (_quantile(0.5, "joulie_outofband_pass_duration_seconds"), "p50"),
                ),
                line(
                    "Requests that change something",
                    "short",
                    ("sum by (action, result) (increase(joulie_outofband_actions_total[5m]))", "{{action}} {{result}}"),
                    doc="In the last five minutes.",
                ),
            ),
        ),
        _process("joulie-outofband"),
    ),
)

SIMULATOR: Final = Board(
    "simulator",
    "Joulie / Simulator",
    (
        Row(
            "Simulated hardware",
            (
                line("Power", "watt", ("sum by (part) (joulie_sim_power_watts)", "{{part}}"), form=Form.STACKED),
                line("Energy by class of node", "joule", ("joulie_sim_class_energy_joules_total", "{{class}}")),
                line("Lowest caps", "watt", ("bottomk(20, joulie_sim_cap_watts)", "{{node}} {{part}}")),
                line(
                    "Speed under caps",
                    "percentunit",
                    ("avg by (part) (joulie_sim_relative_performance)", "{{part}} mean"),
                    ("min by (part) (joulie_sim_relative_performance)", "{{part}} least"),
                ),
                line("Throttle", "percent", ("topk(20, joulie_sim_throttle_pct)", "{{node}}")),
                line(
                    "Control requests",
                    "reqps",
                    ("sum by (action, result) (rate(joulie_sim_control_requests_total[2m]))", "{{action}} {{result}}"),
                ),
            ),
        ),
        Row(
            "Simulated work",
            (
                line("Running pods", "short", ("sum(joulie_sim_running_jobs)", "running")),
                line("Completed pods", "short", ("joulie_sim_completed_jobs_total", "{{workload_class}}")),
                line(
                    "Mean slowdown of completed pods",
                    "short",
                    ("joulie_sim_slowdown_sum_total / joulie_sim_completed_jobs_total", "{{workload_class}}"),
                    doc="Time taken over time at full speed.",
                ),
            ),
        ),
    ),
)

BOARDS: Final = (OVERVIEW, OPERATOR, AGENT, EXTENDER, OUT_OF_BAND, SIMULATOR)
