"""Pure functions from text and bytes to records. Nothing here opens a file or a socket."""
