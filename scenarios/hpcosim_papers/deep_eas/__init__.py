"""Deep-EAS (Esmaili, Pedram 2019): agent, environment, learners and study."""
