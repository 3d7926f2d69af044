"""Commands that need no console: what they read, print and end with. Pure; `bin/manage` and `reprise` share them.

`bin/release` packs what these modules import, and nothing else, into the wheel with the command `reprise`. So nothing
here imports the console or a database.
"""
