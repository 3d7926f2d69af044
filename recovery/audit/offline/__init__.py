"""What an evidence pack carries beside its data: a page that needs no console, and a check that needs no library."""
