"""Who people are: roles and rights in code, personal tokens, accounts."""
