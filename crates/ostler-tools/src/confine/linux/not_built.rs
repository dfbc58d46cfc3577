//! Substitutes for Landlock and seccomp in a build without the feature `sandbox`. They behave as on
//! a machine that has neither, so a confinement that requires them is refused.

/// Landlock, not built in.
pub(super) mod landlock_rules {
    use std::io;

    use super::super::super::{Confinement, Layers};

    /// An empty ruleset.
    #[derive(Debug)]
    pub(in super::super) struct LandlockRuleset;

    impl LandlockRuleset {
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

/// Seccomp, not built in.
pub(super) mod syscalls {
    use std::io;

    use super::super::super::{Layers, Network};

    /// An empty set of filters.
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
    use super::{landlock_rules, syscalls};

    // A build without the feature fails closed: no layer is entered, and a confinement that
    // requires one does not run.
    #[test]
    fn required_layers_are_never_met_without_the_feature() {
        let entered = landlock_rules::LandlockRuleset::build(&Confinement::default())
            .unwrap()
            .enter(Layers::default());
        let entered = entered.with(
            syscalls::Filters::build(Network::None)
                .unwrap()
                .enter(Layers::default()),
        );
        for required in [Required::Files, Required::Everything] {
            assert!(
                !required.is_met(entered, landlock_rules::abi(), Network::None),
                "{required:?}"
            );
        }
    }
}
