"""Messages to people: one value for what there is to say, and how each kind of channel wants to hear it.

Pipelines and the server build theirs here, so that an alert looks the same whoever sends it.
"""
