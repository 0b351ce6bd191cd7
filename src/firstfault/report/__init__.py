"""Renders reports for people and machines. Text of foreign programs is neutralised here."""
