"""One module per page, each with a function from a Question to a Page."""
