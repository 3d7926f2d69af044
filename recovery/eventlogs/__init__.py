"""Reads Spark's event logs on any store: which applications ran, and what their streaming queries did. Pure.

A log is other people's data: every line, block and number is bounded, and what cannot be read counts as not said.
"""
