"""Turns bytes into observations: finds sources, detects formats, runs the catalogue's patterns over them."""
