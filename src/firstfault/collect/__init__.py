"""Gathers evidence from a cluster and an account with read-only calls."""
