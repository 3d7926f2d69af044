"""How people sign in: how django-allauth is configured, and what is recorded."""
