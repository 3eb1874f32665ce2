"""A Redfish BMC with the peculiarities of vendors' ones, for tests of what talks to BMCs."""
