"""One file per agent that can be handed a conversation. The file's name is the agent's."""
