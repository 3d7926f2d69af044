"""Damages of checkpoints that real Spark wrote: what `inspect` predicts of each, and what Spark then does.

`bases` are the queries and their good checkpoints, `hands` make damages, `cases` is the table of damages,
`judge` runs one, `page` prints docs/damage-table.md from the outcomes that a run on Spark recorded.
"""
