"""Fuzz every parser and keep what is found.

    python -m tests.fuzz [--seconds 30] [--target offsets] [--seed 1]

Seconds are for each target. An input that is a bug is written to tests/fixtures/fuzz/<target>-<digest>, which the
suite runs from then on; the command ends with 1.
"""

import argparse
import hashlib
import random
import sys
import traceback

from tests.fuzz.engine import Escaped, fuzz
from tests.fuzz.targets import FOUND, TARGETS


def main() -> int:
    """Fuzz, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--target", choices=[t.name for t in TARGETS])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    bad = 0
    for target in TARGETS:
        if options.target not in (None, target.name):
            continue
        try:
            tried, new = fuzz(target, seed=options.seed, seconds=options.seconds)
            sys.stdout.write(f"{target.name:<12} {tried:>9,} inputs, {new} of them reached something new\n")
        except Escaped as found:
            bad += 1
            FOUND.mkdir(parents=True, exist_ok=True)
            kept = FOUND / f"{target.name}-{hashlib.sha256(found.data).hexdigest()[:12]}"
            kept.write_bytes(found.data)
            traceback.print_exception(found.__cause__)
            sys.stdout.write(f"{target.name:<12} a bug; its input is kept as {kept}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
