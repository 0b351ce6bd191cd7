"""Side effects behind small protocols (Cluster, Cloud, Network, Clock, Runner), each with a real implementation."""
