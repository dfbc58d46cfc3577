//! The normalized log among the artifacts of a trial.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

use super::{ExecutionFacts, FILE_NAME, LogError, NormalizedLog, from_events, published, schema};
use crate::adapter::{ErrorCode, Execution};
use crate::embedder::{AgentRequest, Projection};

/// Checks a log against its schema. Compiling the schema takes longer than checking a short log.
static VALIDATOR: LazyLock<Result<jsonschema::Validator, SchemaMismatch>> =
    LazyLock::new(|| jsonschema::validator_for(&schema()).map_err(|error| mismatch(&error)));

fn mismatch(error: &dyn Display) -> SchemaMismatch {
    SchemaMismatch(error.to_string())
}

/// Field names of a normalized log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// The names of the contract.
    #[default]
    Contract,
    /// The names that youBencha 1.0 publishes.
    Published,
}

impl LogFormat {
    /// Returns a log as JSON.
    ///
    /// # Errors
    /// If a log with the contract's names does not match the schema.
    pub fn to_json(self, log: &NormalizedLog) -> Result<Value, SchemaMismatch> {
        match self {
            Self::Published => Ok(published(log)),
            Self::Contract => {
                let value = serde_json::to_value(log).map_err(|error| mismatch(&error))?;
                let validator = VALIDATOR.as_ref().map_err(Clone::clone)?;
                validator
                    .validate(&value)
                    .map_err(|error| mismatch(&error))?;
                Ok(value)
            }
        }
    }
}

/// A log that does not match its own schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the normalized log does not match its schema: {0}")]
pub struct SchemaMismatch(String);

/// Writes the normalized log of every trial.
#[derive(Debug, Clone, Copy, Default)]
pub struct NormalizedLogs(pub LogFormat);

impl Projection for NormalizedLogs {
    fn write(
        &self,
        request: &AgentRequest,
        execution: &Execution,
        artifacts: &Path,
    ) -> io::Result<Vec<PathBuf>> {
        let log = normalize_log(request, execution);
        let value = self.0.to_json(&log).map_err(io::Error::other)?;
        let text = serde_json::to_string_pretty(&value)? + "\n";
        std::fs::write(artifacts.join(FILE_NAME), text)?;
        Ok(vec![FILE_NAME.into()])
    }
}

/// Builds the log of an execution.
#[must_use]
pub fn normalize_log(request: &AgentRequest, execution: &Execution) -> NormalizedLog {
    let result = &execution.result;
    let errors = result.errors.iter().map(|error| LogError {
        code: Some(match error.code {
            ErrorCode::Session(cause) => cause.as_str().to_owned(),
            ErrorCode::Adapter(fault) => fault.as_str().to_owned(),
        }),
        message: error.message.clone(),
        timestamp: Some(error.timestamp.to_string()),
    });
    let facts = ExecutionFacts {
        agent: request.contender.agent.clone(),
        agent_version: execution.agent_version.clone(),
        adapter_version: env!("CARGO_PKG_VERSION").to_owned(),
        configured_model: request.contender.model.clone(),
        provider: None,
        status: result.status,
        exit_code: Some(result.exit_code),
        started_at: result.started_at.to_string(),
        completed_at: result.completed_at.to_string(),
        duration_ms: result.duration_ms,
        working_directory: request.dir.display().to_string(),
        errors: errors.collect(),
    };
    from_events(&facts, execution.events.iter())
}
