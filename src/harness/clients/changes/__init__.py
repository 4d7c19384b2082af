"""The changes of a conversation, with the files as they are now: shown, reverted and committed."""
