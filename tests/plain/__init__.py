"""Plain Structured Streaming programs as people write them, what breaks them, and what recovers them."""
