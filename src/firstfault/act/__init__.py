"""Side effects behind small protocols: namespaces, netlink, firewall, processes. Linux only where it must be.

Importing this package imports nothing else: the world's first process starts from here and must be quick, and on other
systems the parts that need no kernel (messages, the firewall as data) stay usable.
"""
