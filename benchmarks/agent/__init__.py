"""`make bench-agent`: what watching a Spark job costs the job."""
