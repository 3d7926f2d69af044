"""Tools for those who change Reprise: which tests run when, what a change can have broken, what was proven."""
