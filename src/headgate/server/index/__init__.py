"""The index of words that lead to datasets, columns, jobs and pipelines."""
