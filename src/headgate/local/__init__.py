"""A server of this machine: the folder and port it keeps to itself, and the key it leaves for others."""
