"""The operator, with a look at its savings every second of the clock: for runs whose times are scaled.

In a minute of the clock an hour passes in them, so that half a minute between two looks would be half an hour.
"""

from joulie_operator import __main__ as operator
from joulie_operator.savings import controller

if __name__ == "__main__":
    vars(controller)["INTERVAL_S"] = 1.0
    operator.main()
