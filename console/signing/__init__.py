"""How people sign in: what django-allauth is told, and what is written down about it."""
