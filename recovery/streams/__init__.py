"""Plain Structured Streaming: event logs that are followed, streams that people adopted, what starts and stops them."""
