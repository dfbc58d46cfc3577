//! The places of Landlock and seccomp in a build without the feature `sandbox`: as on a machine that has neither, so that a
//! confinement that requires them is refused.

/// Landlock, which is not built in.
pub(super) mod files {
    use std::io;

    use super::super::super::{Confinement, Layers};

    /// No rules.
    #[derive(Debug)]
    pub(in super::super) struct Fence;

    impl Fence {
        pub(in super::super) fn build(_: &Confinement) -> io::Result<Self> {
            Ok(Self)
        }

        pub(in super::super) fn enter(&self, _: Layers) -> Layers {
            Layers::default()
        }
    }

    /// Returns 0: there is no Landlock.
    pub(in super::super) fn abi() -> u8 {
        0
    }
}

/// Seccomp, which is not built in.
pub(super) mod syscalls {
    use std::io;

    use super::super::super::{Layers, Network};

    /// No filters.
    #[derive(Debug)]
    pub(in super::super) struct Filters;

    impl Filters {
        pub(in super::super) fn build(_: Network) -> io::Result<Self> {
            Ok(Self)
        }

        pub(in super::super) fn enter(&self, _: Layers) -> Layers {
            Layers::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Confinement, Layers, Network, Required};
    use super::{files, syscalls};

    // A build without the feature fails closed: no layer is entered, and what requires one does not run.
    #[test]
    fn nothing_that_requires_a_layer_can_run_without_the_feature() {
        let entered = files::Fence::build(&Confinement::default())
            .unwrap()
            .enter(Layers::default());
        let entered = entered.with(
            syscalls::Filters::build(Network::None)
                .unwrap()
                .enter(Layers::default()),
        );
        for required in [Required::Files, Required::Everything] {
            assert!(
                !required.is_met(entered, files::abi(), Network::None),
                "{required:?}"
            );
        }
    }
}
