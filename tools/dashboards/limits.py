"""Rows about limits that are not a profile's: power domains and their budgets, and limits by class."""

from typing import Final

from tools.dashboards.panels import Form, Row, line

_DOMAIN: Final = "joulie_operator_power_domain"


def _of_domain(figure: str) -> str:
    return f"max by (domain) ({_DOMAIN}_{figure}_watts)"


_DRAWN: Final = f"sum by (domain) (max by (domain, quality) ({_DOMAIN}_drawn_watts))"

POWER_DOMAINS: Final = Row(
    "Power domains, where they are observed or enforced",
    (
        line(
            "Share of the limit that is in force and drawn",
            "percentunit",
            (f"topk(20, {_of_domain('in_force')} / {_of_domain('limit')})", "{{domain}} in force"),
            (f"topk(20, {_DRAWN} / {_of_domain('limit')})", "{{domain}} drawn"),
            doc="In force is what the nodes may draw. A domain of which one of both is not known has no line. "
            "docs/power-budgets.md",
        ),
        line(
            "Limit, in force, allocated and drawn",
            "watt",
            (f"topk(10, {_of_domain('limit')})", "{{domain}} limit"),
            (f"topk(10, {_of_domain('in_force')})", "{{domain}} in force"),
            (f"topk(10, {_of_domain('allocated')})", "{{domain}} allocated"),
            (f"topk(10, {_DRAWN})", "{{domain}} drawn"),
        ),
        line(
            "Headroom",
            "watt",
            (f"bottomk(20, {_of_domain('headroom')})", "{{domain}}"),
            doc="Limit less reserve above what is in force. 0 is usual where nodes may draw more than the limit: what "
            "none wants is given out, and taken back.",
        ),
        line(
            "Nodes that do not follow",
            "short",
            (
                f'max by (domain, state) ({_DOMAIN}_nodes{{state=~"unconfirmed|refused|silent|power_unknown"}})',
                "{{domain}} {{state}}",
            ),
            doc="Unconfirmed for seconds is usual after a change. Silent and refused nodes count with all that they "
            "may draw; one of unknown power leaves the sums of all domains above it unknown.",
        ),
    ),
)

_STATE: Final = f"max by (domain, state) ({_DOMAIN}_raise_state)"

OVERSUBSCRIPTION: Final = Row(
    "Oversubscribed power domains: limits above the limit while what nodes draw is measured",
    (
        line(
            "Permitted, in force, fallback and drawn beside the limit",
            "watt",
            (f"topk(5, {_of_domain('permitted')})", "{{domain}} permitted"),
            (f"topk(5, {_of_domain('in_force')} and on (domain) {_DOMAIN}_raised)", "{{domain}} in force"),
            (f"topk(5, {_of_domain('limit')} and on (domain) {_DOMAIN}_raised)", "{{domain}} limit"),
            (f"topk(5, {_of_domain('fallback')})", "{{domain}} fallback"),
            (f"topk(5, {_DRAWN} and on (domain) {_DOMAIN}_raised)", "{{domain}} drawn"),
            doc="In force above the limit is as intended while it is within permitted and the fallback within the "
            "limit. docs/power-budgets.md#oversubscription",
        ),
        line(
            "Domains by whether limits are raised, and why not",
            "short",
            (f"sum by (state) ({_STATE})", "{{state}}"),
            form=Form.STACKED,
            doc="NotMeasured: samples are too old. NearLimit: the draw is near the limit. BreakerWarm: it has not "
            "cooled, or a new leader does not know it. NotSeen: agents have not seen what they fall back to.",
        ),
        line(
            "Breakers, of what trips them",
            "percentunit",
            (f'topk(10, max by (domain) ({_DOMAIN}_breaker_damage_ratio{{part="counted"}}))', "{{domain}} counted"),
            (f'topk(10, max by (domain) ({_DOMAIN}_breaker_damage_ratio{{part="assumed"}}))', "{{domain}} assumed"),
            doc="Limits are withdrawn from a quarter on. Assumed is what this leader of the operator has not seen.",
        ),
        line(
            "Nodes at their fallback",
            "short",
            ("sum(max by (node) (joulie_power_budget_falling_back))", "at their fallback"),
            ("count(max by (node) (joulie_power_budget_falling_back))", "with a fallback"),
            doc="By the agents: a node falls back where no fresh sample of it is named.",
        ),
    ),
)

CAP_SOURCES: Final = line(
    "What sets caps",
    "short",
    (
        "sum by (subsystem, source) (max by (node, subsystem, source) (joulie_cap_source))",
        "{{subsystem}} {{source}}",
    ),
    form=Form.STACKED,
    doc="Nodes by whether profile or power budget sets the lower cap; only of nodes with a power budget.",
)

CLASS_LIMITS: Final = Row(
    "Limits of GPUs and cores by the class of their holders, where they are followed",
    (
        line(
            "GPUs by why they would be limited or not",
            "short",
            ("sum by (limited, reason) (joulie_class_limit_gpus)", "{{reason}}, limited {{limited}}"),
            form=Form.STACKED,
            doc="Also where nothing is set (CLASS_LIMITS=Shadow). docs/class-limits.md",
        ),
        line(
            "GPUs that are limited",
            "short",
            ("sum(joulie_class_limit_set_gpus)", "limited"),
            ("sum(joulie_class_limit_without_consent_gpus)", "limited without consent of all holders"),
            doc="Without consent is above 0 only while a limit cannot be lifted.",
        ),
        line(
            "Watts that limits save, or would save",
            "watt",
            ("sum by (bound) (joulie_class_limit_saved_watts)", "{{bound}}"),
            doc="At this moment, lowest and highest value.",
        ),
        line(
            "Cores by why they would be limited or not",
            "short",
            ("sum by (limited, reason) (joulie_class_limit_cores)", "{{reason}}, limited {{limited}}"),
            form=Form.STACKED,
            doc="Physical cores, by the resource manager. docs/class-limits.md#cores",
        ),
        line(
            "CPUs whose frequency is limited",
            "short",
            ("sum(joulie_class_limit_set_cpus)", "limited"),
            ("sum(joulie_class_limit_without_consent_cpus)", "limited without consent of all that have them"),
            doc="Without consent is above 0 only while a limit cannot be lifted.",
        ),
        line(
            "Lifted while performance pods wait for GPUs",
            "short",
            ("max(joulie_operator_class_limit_lifted_nodes)", "nodes whose limits are lifted"),
            ("max(joulie_operator_class_limit_waiting_pods)", "performance pods that wait"),
            doc="By the operator. A pod that can never run counts as waiting for as long as it exists.",
        ),
    ),
)
