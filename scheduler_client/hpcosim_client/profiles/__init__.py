"""Free resources in the future: profiles of counts and of nodes."""
