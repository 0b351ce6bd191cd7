"""The five-layer checklist as checks over Terraform, manifests, rules and live state (verb: audit)."""
