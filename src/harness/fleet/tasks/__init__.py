"""Task formats of others, each read into `FleetTask`: one file per format."""
