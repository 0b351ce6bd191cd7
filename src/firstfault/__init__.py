"""firstfault: which layer of a GPU cluster failed first, and the lines that prove it.

The functions here are the same features as the command line, as a library. They are imported on first use, so that
`import firstfault` stays cheap.
"""

from __future__ import annotations

from firstfault._version import __version__

__all__ = ["__version__"]
