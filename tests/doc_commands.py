"""The commands in the documentation, and where each is run.

A command is a line of a `sh` block, a line after `$ ` of a `console` block, or inline code that starts with one of
`PROGRAMS` and is not only the name of a command. Each is covered by one of these, in this order:

- `ELSEWHERE`: why it is neither run nor read here, and which test covers what it does;
- `just`, and programs of this repository: their own parsers read it (tests/integration/test_documented_commands.py);
- `ON_A_CLUSTER`: it is run as it stands, on a real control plane (tests/e2e/test_documentation.py);
- `ON_SLEEPING_NODES`: the same, where nodes sleep (tests/e2e/test_sleep_commands.py).
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
#: docs/extending.md is run by tests/integration/test_extending.py.
PAGES: Final = tuple(
    path.relative_to(ROOT).as_posix()
    for path in (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    if path.name != "extending.md"
)
PROGRAMS: Final = re.compile(
    r"(helm|kubectl|just|kubectl-joulie|joulie-\w+|python|promtool|kube-scheduler|curl|ipmitool|systemctl) "
)
#: Languages of blocks that people do not run.
OTHER_LANGUAGES: Final = frozenset({"text", "yaml", "mermaid"})

#: Sections whose commands of helm and kubectl are run on a cluster, in this order.
ON_A_CLUSTER: Final = (
    ("docs/install.md", "Installation and removal"),
    ("docs/scheduler.md", "On control plane nodes of your own"),
    ("docs/scheduler.md", "Checking it"),
    ("docs/concepts.md", "Profiles"),
    ("docs/concepts.md", "Draining"),
    ("docs/concepts.md", "Targets, caps and results"),
    ("docs/concepts.md", "Sleep"),
    ("docs/concepts.md", "Twins and scores"),
    ("docs/kubectl-joulie.md", "kubectl joulie"),
    ("docs/kubectl-joulie.md", "Install"),
    ("docs/kubectl-joulie.md", "Permissions"),
    ("docs/savings.md", "What has Joulie saved here?"),
    ("docs/power-budgets.md", "Begin"),
    ("docs/power-budgets.md", "Enforce"),
    ("docs/power-events.md", "The call"),
    ("docs/openadr.md", "Set it up"),
    ("docs/openadr.md", "Leave it"),
    ("docs/power-budgets.md", "Leave"),
    ("docs/holders.md", "Holders of devices"),
    ("docs/energy-by-pod.md", "Series"),
    ("docs/class-limits.md", "Trying it"),
    ("docs/class-limits.md", "Setting the limits"),
    ("docs/live-page.md", "Opening it"),
    ("docs/monitoring.md", "Monitoring"),
    ("docs/troubleshooting.md", "Troubleshooting"),
    ("docs/troubleshooting.md", "A pod stays pending"),
    ("docs/troubleshooting.md", "A cap is not in force"),
    ("docs/troubleshooting.md", "JoulieOperatorAbsent"),
    ("docs/troubleshooting.md", "JoulieNoOperatorLeads"),
    ("docs/upgrade.md", "Steps"),
    ("docs/upgrade.md", "Secrets of BMCs"),
    ("docs/upgrade.md", "Going back"),
    ("docs/install.md", "Uninstalling"),
    ("docs/security.md", "Namespaces and Pod Security"),
)
#: Sections whose commands are run on a cluster with a node that sleeps, in this order.
ON_SLEEPING_NODES: Final = (
    ("docs/sleep.md", "Prove the wake path"),
    ("docs/sleep.md", "Try it: nothing is powered off"),
    ("docs/sleep.md", "Let it act"),
    ("docs/sleep.md", "Bounds of power cycles and boots"),
    ("docs/sleep.md", "Which pods are moved"),
    ("docs/sleep.md", "Wake nodes"),
    ("docs/sleep.md", "Work on a server"),
    ("docs/sleep.md", "Servers that Joulie switched off"),
    ("docs/sleep.md", "One node while the operator does not run"),
    ("docs/sleep.md", "Stop it at once"),
    ("docs/sleep.md", "Order of an emergency"),
    ("docs/sleep.md", "Power on by hand"),
    ("docs/sleep.md", "Everything back without Joulie"),
)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a command is not run by the tests of the documentation."""

    why: str
    #: The file of the test that covers it, if there is one.
    test: str = ""


_NO_PROCESS: Final = "pods of the test's cluster have no processes"
_THIS_MACHINE: Final = "changes the machine that runs it"
_DOCTOR_OF_NODE: Final = Reason(_NO_PROCESS, "tests/e2e/test_agent_pod.py")

#: By page and a regular expression that matches the whole command.
ELSEWHERE: Final[dict[tuple[str, str], Reason]] = {
    ("docs/container-resources.md", r"joulie-containers manager --policy .*"): Reason(
        "needs a container runtime", "tests/e2e/test_container_resources.py"
    ),
    ("docs/energy-by-pod.md", r"kubectl joulie energy --since .*"): Reason(
        "needs a Prometheus", "tests/e2e/test_energy_since.py"
    ),
    ("docs/install.md", r"kubectl .* exec POD .*"): _DOCTOR_OF_NODE,
    ("docs/install.md", r"kubectl .* create secret generic bmc .*"): Reason(
        "has files and addresses to fill in", "services/outofband/tests/test_secrets.py"
    ),
    ("docs/install.md", r"systemctl .*|rm -rf .*"): Reason(_THIS_MACHINE, "tests/integration/test_chart_watchdog.py"),
    ("docs/install.md", r"helm (uninstall --no-hooks|rollback joulie REVISION|history joulie)"): Reason(
        "needs a failed uninstall", "tests/e2e/test_chart.py"
    ),
    (
        "docs/install.md",
        r"helm (install .* kind/values.yaml|test joulie .*|(rollback|uninstall) joulie)|kubectl get nodehardwares,.*",
    ): Reason("needs a kind cluster", "tests/e2e/test_kind.py"),
    ("docs/install.md", r"helm lint --strict helm/joulie"): Reason(
        "needs no cluster", "tests/integration/test_chart.py"
    ),
    ("docs/kubectl-joulie.md", r"pip install .*"): Reason("changes what is installed"),
    ("docs/kubectl-joulie.md", r"kubectl create role(binding)? prometheus-reader.*"): Reason(
        "needs a Prometheus", "tests/e2e/test_energy_since.py"
    ),
    ("docs/live-page.md", r"kubectl .*port-forward.*"): Reason(_NO_PROCESS),
    ("docs/models.md", r"joulie-sim calibrate --check \.\.\. --left-out"): Reason("has a place to fill in"),
    ("docs/monitoring.md", r"promtool test rules"): Reason("has no file", "tests/integration/test_monitoring.py"),
    ("docs/openadr.md", r"kubectl .* create secret generic vtn .*"): Reason(
        "has files to fill in", "services/ven/tests/test_service.py"
    ),
    ("docs/power-budgets.md", r"kubectl apply -f domains.yaml"): Reason(
        "stores the example of the page", "tests/e2e/test_power_domains.py"
    ),
    ("docs/power-budgets.md", r"helm upgrade .*oversubscription=true"): Reason(
        "rendered by Helm", "tests/integration/test_chart.py"
    ),
    ("docs/power-events.md", r"kubectl apply -f event.yaml"): Reason(
        "stores the example of the page", "tests/e2e/test_power_events.py"
    ),
    ("docs/power-events.md", r"kubectl joulie event call-1 --report call-1.csv"): Reason(
        "writes a file", "tests/e2e/test_power_events.py"
    ),
    ("docs/presets.md", r"helm upgrade .*"): Reason(
        "rendered by tests/integration/test_presets.py", "tests/e2e/test_presets.py"
    ),
    ("docs/presets.md", r"python -m experiments.presets"): Reason(
        "writes the page", "tests/integration/test_presets.py"
    ),
    ("docs/scheduler.md", r"install -D .*"): Reason(_THIS_MACHINE, "tests/e2e/test_kind_files.py"),
    ("docs/scheduler.md", r"kube-scheduler --config FILE .*"): Reason(
        "run with the file of this repository", "tests/e2e/test_kind_files.py"
    ),
    ("docs/scheduler.md", r"kubectl get --raw .*/proxy/healthz"): Reason(
        _NO_PROCESS, "tests/e2e/test_kubectl_joulie.py"
    ),
    ("docs/security.md", r"kubectl auth can-i .*"): Reason("answers are compared there", "tests/e2e/test_chart.py"),
    ("docs/sleep.md", r"busctl .*|systemd-inhibit --list"): Reason("asks the logind of a server"),
    ("docs/sleep.md", r"ipmitool .*"): Reason(
        "needs a BMC with IPMI", "services/outofband/tests/ipmi/test_ipmi_sim.py"
    ),
    ("docs/sleep.md", r"kubectl .* scale deployment .*"): Reason(_NO_PROCESS, "tests/e2e/test_sleep_commands.py"),
    ("docs/sleep.md", r"helm upgrade .*"): Reason("rendered by Helm", "tests/integration/test_chart.py"),
    ("docs/troubleshooting.md", r"curl http://ADDRESS:9876/healthz"): Reason(
        _NO_PROCESS, "tests/images/test_services.py"
    ),
    ("docs/troubleshooting.md", r"kubectl .* exec POD .*"): _DOCTOR_OF_NODE,
    ("docs/troubleshooting.md", r"kubectl .* logs POD"): Reason(_NO_PROCESS),
    ("docs/troubleshooting.md", r"kubectl logs .*"): Reason(_NO_PROCESS),
    ("README.md", r"python3 -m venv .*"): Reason("starts everything; CI runs the line with `just ci`"),
    ("CONTRIBUTING.md", r"python3 -m venv .*"): Reason("starts everything; CI runs the line with `just ci`"),
}


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `text` is without prompt, comment and line ends."""

    page: str
    section: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its words, as a shell splits them; programs without their directory, and without `time`."""
        program, *arguments = shlex.split(self.text.removeprefix("time "))
        return [program.rpartition("/")[2], *arguments]

    @property
    def elsewhere(self) -> Reason | None:
        """Why it is not run here; None where it is."""
        found = (
            reason
            for (page, pattern), reason in ELSEWHERE.items()
            if page == self.page and re.fullmatch(pattern, self.text)
        )
        return next(found, None)


_PART: Final = re.compile(
    r"^#+ (?P<heading>[^\n]+)$"
    r"|^(?P<indent> *)```(?P<language>\w*)\n(?P<block>.*?)^ *```$"
    r"|`(?P<inline>[^`]+)`",
    re.MULTILINE | re.DOTALL,
)
#: The name of a program or of one of its commands, which stands for itself in a sentence.
_NAME: Final = re.compile(r"[\w.-]+|(helm|kubectl|joulie-agent|joulie-sim) [a-z-]+|kubectl (describe pod|create token)")


def documented_commands() -> tuple[Command, ...]:
    """Return all commands of all pages, in their order."""
    return tuple(command for page in PAGES for command in _commands(page, (ROOT / page).read_text()))


def languages(page: str) -> list[str]:
    """Return the language of each block of a page; empty for a block without."""
    return [part["language"] for part in _PART.finditer((ROOT / page).read_text()) if part["block"] is not None]


def _commands(page: str, text: str) -> Iterator[Command]:
    section = ""
    for part in _PART.finditer(text):
        if part["heading"]:
            section = part["heading"]
        elif part["block"] is not None:
            yield from (Command(page, section, each) for each in _lines(part["language"], part["block"]))
        else:
            inline = " ".join(part["inline"].split())
            if PROGRAMS.match(inline) and not _NAME.fullmatch(inline):
                yield Command(page, section, inline)


def _lines(language: str, block: str) -> Iterator[str]:
    lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
    if language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    elif language != "sh":
        return
    for line in lines:
        command = " ".join(line.partition(" # ")[0].split())
        if command:
            yield command
