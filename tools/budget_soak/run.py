"""The soak of power budgets: many worlds of random faults, and an observer that adds up the limits of the hardware.

    python -m tools.budget_soak.run [--steps N] [--seed N]

Prints progress, and the seed of the first world in which a sum was above its limit; the exit code is then 1.
"""

import argparse
import sys
from collections.abc import Sequence

from tools.budget_soak.world import LimitExceededError, World

#: Steps of one world.
_STEPS: int = 5000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run worlds until there were enough steps, and return the exit code."""
    parser = argparse.ArgumentParser(description="search for a schedule that exceeds a power budget")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps in all (default: 1000000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first world (default: 0)")
    options = parser.parse_args(arguments)
    done, seed = 0, options.seed
    while done < options.steps:
        steps = min(_STEPS, options.steps - done)
        releases = bool(seed % 2)
        world = World(seed, releases=releases)
        for number in range(steps):
            try:
                world.step()
            except LimitExceededError as error:
                print(f"seed {seed}, step {number}, releases {releases}: {error}")
                return 1
        done += steps
        seed += 1
        if done % (10 * _STEPS) == 0 or done == options.steps:
            print(f"{done} steps in {seed - options.seed} worlds: no sum above a limit", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
