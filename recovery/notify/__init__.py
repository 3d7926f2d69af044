"""Tells people what happened, by mail, webhook and chat: a transactional outbox, delivered at least once."""
