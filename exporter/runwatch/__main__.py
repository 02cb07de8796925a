"""`python -m runwatch` is the `runwatch` command."""

from runwatch.cli import main

if __name__ == "__main__":
    main()
