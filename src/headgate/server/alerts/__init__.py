"""Who is told what, and what became of it: rules, channels, history."""
