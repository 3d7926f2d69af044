#!/usr/bin/env python
"""Django's command line for Reprise. Use bin/manage: it brings the environment."""

import os
import sys

READING = {"flows", "inspect", "diagnose", "audit"}
"""Commands that start without pages, sign-in and workers."""


def main() -> None:
    reads = len(sys.argv) > 1 and sys.argv[1] in READING
    settings = "console.settings_reading" if reads else "console.settings"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings)
    from recovery.management.overview import CommandLine

    CommandLine(sys.argv).execute()


if __name__ == "__main__":
    main()
