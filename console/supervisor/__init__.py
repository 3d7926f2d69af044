"""Starts, watches and ends every process of one Reprise instance on one machine (bin/demo)."""
