#!/bin/sh
# Runs rustdoc, and lets that of a stable toolchain write JSON. With the variable in the environment
# of cargo, dependencies would be compiled again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
