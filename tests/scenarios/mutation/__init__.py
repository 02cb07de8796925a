"""A mutation test of the rules: each single change of a threshold, an operator or a `for` must fail a scenario."""
