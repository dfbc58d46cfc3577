//! Commands of a model that try to get out: really run, really confined, each refused with workspace and host unchanged.

mod escapes;
mod files;
mod limits;
mod rig;
