"""Deep-EAS (Esmaili, Pedram 2019): an agent that binds jobs to machines, by a picture of both."""
