"""Makes a fault happen safely: scenarios, worlds, phases, journal, undo."""
