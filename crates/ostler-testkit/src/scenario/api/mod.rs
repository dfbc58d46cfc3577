//! Scenarios for agents over a model's API only: server quirks, and Ostler's own tool loop.

pub mod calls;
pub mod context;
pub mod errors;
pub mod retries;
pub mod secrets;
pub mod server;
pub mod tokens;
pub mod workspace;

use super::{Driver, Place, Seen, Task, run};
use crate::model::{Answer, Rule, Script};

/// Creates a test environment in which every call gets the same answer.
fn only(driver: &dyn Driver, answer: Answer) -> Place {
    driver.place(Script::new().rule(Rule::any().answer(answer)))
}

/// Creates a test environment with one answer per model call, in order.
fn answers(driver: &dyn Driver, answers: impl IntoIterator<Item = Answer>) -> Place {
    let rules = answers
        .into_iter()
        .map(|answer| Rule::any().once().answer(answer));
    driver.place(rules.fold(Script::new(), Script::rule))
}

/// Runs a task and checks that it completes.
fn completes(driver: &dyn Driver, place: &Place, task: &Task) -> Seen {
    let seen = run(driver, place, task);
    seen.ended_with("completed", 0);
    seen
}

/// Generates a test for each scenario of an agent over a model's API, run by the given driver.
#[macro_export]
macro_rules! api_scenarios {
    ($driver:expr) => {
        $crate::tests_of_scenarios! { $driver;
            api::calls::usual api::calls::without_id api::calls::without_index api::calls::without_id_and_index
            api::calls::colliding_index api::calls::one_piece api::calls::one_chunk api::calls::with_the_end
            api::calls::many_pieces api::calls::empty_arguments api::calls::no_arguments api::calls::interleaved
            api::calls::id_repeated api::calls::name_repeated api::calls::blanked_afterwards api::calls::object_arguments
            api::calls::calls_although_it_stopped api::calls::no_calls_although_it_says_so api::calls::unknown_reason
            api::calls::unknown_tool_is_mended api::calls::bad_arguments_are_mended api::calls::torn_arguments_are_mended
            api::context::results_are_shortened api::context::messages_are_summarised api::context::the_server_says_too_long
            api::context::a_prompt_too_long_for_anything
            api::errors::forbidden api::errors::no_such_model api::errors::a_page_of_a_proxy api::errors::an_error_in_the_stream
            api::errors::an_error_before_the_first_word api::errors::garbage_in_the_stream api::errors::no_answer_at_all
            api::errors::a_page_instead_of_an_answer api::errors::no_tls api::errors::a_message_about_the_limit
            api::errors::an_empty_answer
            api::retries::tried_again_and_told_once api::retries::cut_before_the_first_word api::retries::not_after_a_word
            api::retries::as_often_as_allowed api::retries::when_the_server_says api::retries::not_without_quota
            api::retries::reset_headers api::retries::not_beyond_the_time_limit
            api::secrets::the_key_is_nowhere api::secrets::an_echoed_key_is_nowhere api::secrets::commands_do_not_get_the_key
            api::server::headers api::server::a_key_of_another_name api::server::no_key api::server::a_base_url api::server::the_only_model
            api::server::fields_of_a_request api::server::never_streams api::server::never_streams_with_tools
            api::server::comments api::server::carriage_returns api::server::torn_bytes api::server::without_done
            api::server::reasoning_of_another_name api::server::reasoning_twice api::server::a_schema_that_is_not_kept
            api::tokens::in_a_chunk_of_their_own api::tokens::in_every_chunk api::tokens::in_the_last_choice api::tokens::never
            api::tokens::whole api::tokens::not_asked_for api::tokens::a_price_makes_a_cost
            api::workspace::every_tool api::workspace::in_order api::workspace::outside_is_denied api::workspace::commands_are_denied
            api::workspace::a_failing_command api::workspace::a_missing_file
        }
    };
}
