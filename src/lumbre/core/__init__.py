"""Words that every room shares: the error tree, ids. Pure."""
