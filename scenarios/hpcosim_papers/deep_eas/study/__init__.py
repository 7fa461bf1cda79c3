"""The study of Deep-EAS (Esmaili, Pedram 2019): its figures, its percentages, and extensions."""
