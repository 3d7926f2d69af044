"""Everything Reprise knows and does; docs/architecture.md says which room may know which."""
