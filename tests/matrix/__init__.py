"""Forecast and outcome: what each strategy said it would do to rows, beside what Spark then did."""
