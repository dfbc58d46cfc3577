//! The tools against attacks, and against honest use.
