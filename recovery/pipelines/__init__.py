"""Pipelines API client, events, inventory."""
