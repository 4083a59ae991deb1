#!/bin/sh
# Runs the compiler in the arguments, for which a warning is an error.
exec "$@" --deny warnings
