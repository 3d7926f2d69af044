"""The demo's incident: a real pipeline that really fails. Run through the Pipelines API, never scripted."""
