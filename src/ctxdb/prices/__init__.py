"""The price list: read it, change it, and import it from CSV files."""
