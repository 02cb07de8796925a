"""Everything that talks to the outside world. Each module returns facts or a typed `Failure`, and shares nothing."""
