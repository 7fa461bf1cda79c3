"""The tables of results, as Parquet and CSV files."""
