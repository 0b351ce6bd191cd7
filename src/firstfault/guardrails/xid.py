"""XID codes by what a rule should do about them.

Source: NVIDIA's XID catalogue (recommended actions), as summarised in docs/guard/xid.md. Codes in none of the groups
are unknown to this release; the rules report them as such.
"""

from __future__ import annotations

__all__ = ["ISOLATE", "LATE", "PROGRAM", "SILENT"]

# The GPU or the node cannot be trusted until it was reset, rebooted or replaced: no new work on it.
ISOLATE = (46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158)
# Mostly a bug of the program on the GPU; hardware only when it comes back on the same GPU with other programs.
PROGRAM = (8, 11, 13, 25, 31, 32, 39, 40, 41, 43, 60, 69, 80, 94, 108, 137)
# Follow another XID and overwrite it in a last-value gauge: never a cause on their own (45 also marks a job's end).
LATE = (45, 63, 154)
# Test messages and notices that ask for nothing.
SILENT = (14, 37, 38, 78, 92, 93, 106, 107, 121, 141, 151, 159, 162, 163, 164, 165)
