"""Undo: what a turn of any agent did to the files of its folder, recorded around it, taken back and brought again."""
