"""The console's JSON API, for programs that hold an access token: the same acts as pages and commands."""
