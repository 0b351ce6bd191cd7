"""Programs that the drills run in every rank. Each is a script of its own and imports nothing of this package."""
