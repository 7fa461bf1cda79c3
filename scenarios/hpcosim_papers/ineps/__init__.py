"""InEPS (Lopez, Stafford, Bosque 2025): pairs of jobs and nodes."""
