#!/bin/sh
# JobCompLoc of jobcomp/script.
@notify ended "$JOBID $JOBSTATE"
exit 0
