"""How fast Headgate is: programs that measure, and what they measured."""
