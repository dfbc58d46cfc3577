//! Scenarios for agents over a model's API only: server quirks, and Ostler's own tool loop.

pub mod calls;
pub mod context;
pub mod errors;
pub mod retries;
pub mod secrets;
pub mod server;
pub mod tokens;
pub mod workspace;

use super::{Driver, Observed, Task, TestEnv, run};
use crate::model::{Answer, Rule, Script};

/// Creates a test environment in which every call gets the same answer.
fn only(driver: &dyn Driver, answer: Answer) -> TestEnv {
    driver.test_env(Script::new().rule(Rule::any().answer(answer)))
}

/// Creates a test environment with one answer per model call, in order.
fn answers(driver: &dyn Driver, answers: impl IntoIterator<Item = Answer>) -> TestEnv {
    let rules = answers
        .into_iter()
        .map(|answer| Rule::any().once().answer(answer));
    driver.test_env(rules.fold(Script::new(), Script::rule))
}

/// Runs a task and checks that it completes.
fn completes(driver: &dyn Driver, env: &TestEnv, task: &Task) -> Observed {
    let seen = run(driver, env, task);
    seen.assert_ended("completed", 0);
    seen
}

/// Generates a test for each scenario of an agent over a model's API, run by the given driver.
#[macro_export]
macro_rules! api_scenarios {
    ($driver:expr) => {
        $crate::tests_of_scenarios! { $driver;
            api::calls::usual api::calls::without_id api::calls::without_index
            api::calls::without_id_and_index api::calls::colliding_index api::calls::one_piece
            api::calls::one_chunk api::calls::with_the_end api::calls::many_pieces
            api::calls::empty_arguments api::calls::no_arguments api::calls::interleaved
            api::calls::id_repeated api::calls::name_repeated api::calls::blanked_afterwards
            api::calls::object_arguments api::calls::calls_with_stop_reason
            api::calls::calls_reason_without_calls api::calls::unknown_reason
            api::calls::unknown_tool_is_corrected api::calls::bad_arguments_are_corrected
            api::calls::truncated_arguments_are_corrected
            api::context::results_are_shortened api::context::messages_are_summarised
            api::context::server_reports_overflow api::context::prompt_longer_than_window
            api::errors::forbidden api::errors::no_such_model api::errors::proxy_error_page
            api::errors::an_error_in_the_stream api::errors::an_error_before_the_first_text
            api::errors::garbage_in_the_stream api::errors::stream_without_answer
            api::errors::html_page_with_success_status api::errors::no_tls
            api::errors::answer_cut_at_limit api::errors::an_empty_answer
            api::retries::retried_and_emitted_once api::retries::retried_if_cut_before_text
            api::retries::not_retried_after_text api::retries::retried_up_to_limit
            api::retries::retry_delay_from_server api::retries::not_retried_without_quota
            api::retries::reset_headers api::retries::not_retried_beyond_time_limit
            api::secrets::key_is_in_no_event api::secrets::echoed_key_is_in_no_event
            api::secrets::commands_do_not_get_the_key
            api::server::headers api::server::key_in_another_variable api::server::no_key
            api::server::a_base_url api::server::the_only_model api::server::fields_of_a_request
            api::server::never_streams api::server::never_streams_with_tools
            api::server::comments api::server::carriage_returns api::server::torn_bytes
            api::server::without_done api::server::reasoning_in_another_field
            api::server::reasoning_twice api::server::schema_violation_is_sent_back
            api::tokens::in_a_separate_chunk api::tokens::in_every_chunk
            api::tokens::in_the_last_choice api::tokens::never api::tokens::whole
            api::tokens::not_asked_for api::tokens::a_price_makes_a_cost
            api::workspace::every_tool api::workspace::in_order
            api::workspace::outside_is_denied api::workspace::commands_are_denied
            api::workspace::a_failing_command api::workspace::a_missing_file
        }
    };
}
