"""One file a step kind: precheck, act, read back, artefact; and the probe that finds out after a silence."""
