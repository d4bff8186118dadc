"""The price list as people edit it: rows from the command line and from CSV files."""
