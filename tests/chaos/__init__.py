"""Kills, freezes and starves every part of a running instance while recoveries run: `python -m tests.chaos --help`."""
