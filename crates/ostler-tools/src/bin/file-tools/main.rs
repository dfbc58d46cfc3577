//! The program `file-tools`: the file tools of a workspace, for agents that only have a shell.

fn main() {}
