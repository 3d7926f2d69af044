"""The plan value, its seal, its drift. Pure."""
