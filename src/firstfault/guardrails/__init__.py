"""Renders what would have noticed a fault: rules, policies, manifests (verb: guard)."""
