"""The one door through which a recovery's choices change and its plan is asked for. Pages, commands and the API only
translate what people and programs write into a change."""
