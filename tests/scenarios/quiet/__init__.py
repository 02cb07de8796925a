"""A fleet of healthy jobs over days: what may page or warn in it stands in a list, each with its reason."""
