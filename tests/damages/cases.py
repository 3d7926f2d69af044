"""The whole table of damages."""

from tests.damages.cases_good import GOOD
from tests.damages.cases_logs import LOGS
from tests.damages.cases_place import PLACE
from tests.damages.cases_state import STATE

CASES = GOOD + LOGS + STATE + PLACE
