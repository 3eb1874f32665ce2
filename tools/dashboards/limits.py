"""Rows about limits that are not a profile's: power domains and their budgets, and limits of GPUs by class."""

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
    "Limits of GPUs by the class of their holders, where they are followed",
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
    ),
)
