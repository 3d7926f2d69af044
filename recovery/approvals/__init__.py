"""Who must agree before a plan runs: rules of an environment, requests, votes, break-glass."""
