"""Criteria that were fixed in the plan, measured on data."""
