"""`make bench-pipelines`: what tests, split, reasons and gate cost a Spark job that only reads and writes."""
