"""The audit log: who did or tried what, on what, with which outcome."""
