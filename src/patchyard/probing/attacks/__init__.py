"""Every attack there is, one file a group; data alone."""
