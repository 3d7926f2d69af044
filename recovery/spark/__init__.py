"""The only room of the console that imports pyspark: short-lived Spark Connect sessions."""
