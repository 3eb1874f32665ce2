"""A limit of the VTN, and the settings of the VEN that writes it."""

from joulie_api.settings import read_settings
from joulie_ven.limits import DomainLimit, LimitKind
from joulie_ven.settings import VenSettings

NOW_S = 1_800_000_000.0
SETTINGS = read_settings(
    VenSettings,
    {"VTN_URL": "https://v", "VTN_PROGRAM": "p", "VEN_NAME": "v", "POWER_DOMAIN": "site", "SOURCE_TIMEOUT": "300s"},
)
LIMIT = DomainLimit("e0", 3, 0, LimitKind.CAPACITY_LIMIT, NOW_S - 60, NOW_S + 3_600, 400_000, 7, NOW_S - 60)
