//! The conformance suite with the real agents.

crate::conformance::members!(real);
