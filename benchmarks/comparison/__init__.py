"""`make compare-agents`: what our agent and openlineage-spark see of the same queries."""
