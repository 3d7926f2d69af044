"""Error text and checkpoint report in, cause, damage, severity and advice out. Pure."""

from recovery.diagnosis.judgement import diagnose
from recovery.diagnosis.parsing import Condition, condition_of, innermost, parse

__all__ = ["Condition", "condition_of", "diagnose", "innermost", "parse"]
