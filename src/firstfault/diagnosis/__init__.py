"""From observations to a verdict: the ladder, first cause and consequences, confidence."""
