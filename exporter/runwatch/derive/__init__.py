"""Pure maths from facts to measurements. Nothing here reads a clock, a file or a socket."""
