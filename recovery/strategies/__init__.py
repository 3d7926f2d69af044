"""One file a strategy: facts to steps, forecast, criteria, rollback. Pure."""
