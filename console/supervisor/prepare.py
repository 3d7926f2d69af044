"""What the supervisor does through Django, each in a short process of its own, so that it stays small itself.

    python -m console.supervisor.prepare broker | connectors | databases | instance | people | orders

See console.supervisor.stages for what each does.
"""

import os
import sys


def main(stage: str) -> int:
    """Run one stage; an expected failure is one sentence on stderr and exit code 1."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    import django

    django.setup()
    from django.db import OperationalError

    from console.supervisor import stages
    from recovery.errors import RepriseError

    try:
        stages.STAGES[stage]()
    except RepriseError as problem:
        print(problem.sentence, file=sys.stderr)
    except OperationalError as problem:
        full = "full" in str(problem)
        advice = "free some room and start again" if full else "see that nothing else uses it and start again"
        print(f"The database cannot be used ({problem}); {advice}.", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
