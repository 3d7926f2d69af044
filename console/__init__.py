"""What people touch: pages, forms, settings. Knows recovery; recovery never knows console."""
