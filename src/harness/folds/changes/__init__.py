"""The files that a conversation changed, from the operations of its log: the same for every agent."""
