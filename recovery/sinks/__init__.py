"""Where a stream writes: what a sink remembers. Pure, but for live/."""
