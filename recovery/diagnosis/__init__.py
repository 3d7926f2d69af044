"""Error text and checkpoint report in, cause, damage, severity and advice out. Pure."""

from recovery.diagnosis.judgement import diagnose_failure
from recovery.diagnosis.parsing import ErrorCondition, condition_of, innermost_condition, parse_conditions

__all__ = ["ErrorCondition", "condition_of", "diagnose_failure", "innermost_condition", "parse_conditions"]
