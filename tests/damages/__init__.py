"""Damages of checkpoints that real Spark wrote: what `inspect` predicts of each, and what Spark then does.

`bases` and `bases_more` are the queries, `frozen` their good checkpoints as Spark wrote them, `recipes` says what each
was made by. `hands` make damages, `cases` is the table of damages, `stories` are damages between queries. `judge`
predicts one and runs it, `record` keeps what was seen on Spark and prints docs/damage-table.md from it.
"""
