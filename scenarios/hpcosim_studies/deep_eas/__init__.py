"""Deep-EAS (Esmaili, Pedram 2019) run again: its figures, its percentages, and what is beyond."""
