//! The file tools: honest use of each, and what must not succeed.

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
