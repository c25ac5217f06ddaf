"""How soon Headgate judges what came in, and whether it finds the cause."""
