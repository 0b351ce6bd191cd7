"""One module per structured format; each prints the facts it holds as text lines (docs/canonical-lines.md)."""
