"""Runs the matrix.

python -m tests.matrix [--only PATTERN] [--keep FILE]  run cells whose name it finds, keep what came of them
python -m tests.matrix --write FILE                    write docs/matrix.md from what was kept
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--only", default="", help="cells whose name this pattern finds")
    parser.add_argument("--keep", type=Path, help="a file of JSON lines, added to")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write docs/matrix.md from such a file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reprise-matrix-", ignore_cleanup_errors=True) as folder:
        # no pipeline's data is read below the home of an instance
        home, worlds = Path(folder, "home"), Path(folder, "worlds")
        home.mkdir()
        worlds.mkdir()
        os.environ |= {"REPRISE_HOME": str(home), "REPRISE_OUTBOUND_ALLOW": "127.0.0.1,localhost"}
        os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
        import django

        django.setup()
        if args.write:
            from tests.matrix import document

            document.TARGET.write_text(document.text(document.read(args.write)), encoding="utf-8")
            return 0
        return run(args.only, args.keep, worlds)


def run(only: str, keep: Path | None, worlds: Path) -> int:
    """Run cells one after the other. 1 where a forecast was wrong, a plan failed, or nothing was judged."""
    from recovery.checkpoints import location_checks
    from tests import kafka
    from tests.matrix import cells, document, room

    location_checks.TEMPORARY = ()  # checkpoints below the temporary directory draw a warning elsewhere
    wrong = 0
    with room.running() as spark, kafka.running() as broker:
        bench = cells.Bench(spark, broker, worlds)
        for cell in cells.in_order(only):
            began = time.monotonic()
            try:
                bench.run(cell)
            except AssertionError as problem:
                cell.results["facts"] = cells.Result("failed", str(problem)[:3500])
            say(f"{cell.name}  ({time.monotonic() - began:.1f} s)  {cell.fails[:100]!r}")
            for column, result in cell.results.items():
                say(f"  {column:22} {result.verdict:8} {'; '.join(result.differences) or result.says}")
                wrong += result.verdict in ("differs", "failed") or column == "facts"
            if keep:
                document.keep(keep, cell)
    return int(bool(wrong))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
