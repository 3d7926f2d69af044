"""The whole table of damages."""

from tests.damages.case import Case
from tests.damages.cases_good import GOOD
from tests.damages.cases_logs import LOGS
from tests.damages.cases_more import MORE_CASES
from tests.damages.cases_old import OLD
from tests.damages.cases_place import PLACE
from tests.damages.cases_state import STATE
from tests.damages.stories import STORIES, Story

CASES = GOOD + LOGS + STATE + PLACE + OLD
EVERY: list[Case | Story] = [*CASES, *MORE_CASES, *STORIES]
