"""The layered preflight that climbs the ladder between real peers (verb: smoke)."""
