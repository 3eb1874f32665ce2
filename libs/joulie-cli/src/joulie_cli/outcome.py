"""How a command ends: exit codes, and the error that ends it with a sentence for its user."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of `kubectl joulie`; part of its interface."""

    OK = 0
    #: `doctor` found something to act on; `wake`: a node does not wake, or not in time.
    FINDINGS = 1
    #: The command line is wrong.
    USAGE = 2
    #: The API server or the extender cannot be reached, forbids a request, or does not have the object.
    UNREADABLE = 3


class CliError(Exception):
    """Ends the command: what is wrong, and the way out."""

    def __init__(self, problem: str, way_out: str = "", code: ExitCode = ExitCode.UNREADABLE) -> None:
        super().__init__(problem)
        self.problem = problem
        self.way_out = way_out
        self.code = code
