"""Recoveries and steps: transitions, actions, tasks, reaper, probes."""
