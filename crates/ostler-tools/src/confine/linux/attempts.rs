//! Attempts to get out of a confinement, made from inside it: what `ostler sandbox check` really tries.
