"""A Pipelines API server over open-source Spark: its own process, its own tables."""
