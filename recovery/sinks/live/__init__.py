"""Asks the real file system what the pure adapters need to know."""
