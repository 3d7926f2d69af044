"""Where a stream reads: positions per kind of source. Pure, but for live/."""
