"""Gymnasium environments, one module for each problem. The learners train in them too."""
