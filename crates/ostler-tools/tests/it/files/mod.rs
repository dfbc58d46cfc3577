//! The file tools: normal use of each, and attacks that must fail.

mod catalog;
mod denied;
mod edits;
mod honest;
mod hostile;
mod links;
mod odd_files;
mod odd_names;
mod policy;
mod random_paths;
mod repositories;
pub(crate) mod rig;
mod slow;
mod traversal;
