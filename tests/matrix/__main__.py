"""Runs the matrix: `python -m tests.matrix [--all] [--only TEXT] [--write]`."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--only", default="", help="cells whose name has this text")
    parser.add_argument("--write", action="store_true", help="write docs/matrix.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reprise-matrix-", ignore_cleanup_errors=True) as home:
        os.environ["REPRISE_HOME"] = home
        os.environ["REPRISE_OUTBOUND_ALLOW"] = "127.0.0.1,localhost"
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
        import django

        django.setup()
        from recovery.checkpoints import place
        from tests import kafka
        from tests.matrix import cells, room

        place.TEMPORARY = ()
        chosen = [c for c in cells.all_cells() if args.only in c.name]
        with room.running() as spark, kafka.running() as broker:
            bench = cells.Bench(spark, broker, Path(home))
            for cell in chosen:
                began = time.monotonic()
                bench.run(cell)
                print(f"{cell.name}  ({time.monotonic() - began:.1f} s)", flush=True)
                for column, result in cell.results.items():
                    print(f"  {column:22} {result.verdict:8} {'; '.join(result.differences) or result.says}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
