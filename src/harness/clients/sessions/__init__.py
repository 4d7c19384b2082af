"""Sessions of this machine, recorded by Harness or stored by agents: listed, found, searched, compared, copied."""
