"""Other formats, in and out: one file each."""
