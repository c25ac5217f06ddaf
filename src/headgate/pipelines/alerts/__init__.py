"""Who is told what of a run: the alerts of its records, their messages, and the way to the channels."""
