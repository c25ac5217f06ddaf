"""The ways to people and programs: what each takes, and how it is sent there."""
