//! Native tool calls: the agent waits in the middle of its turn while the caller runs the tools.

use std::sync::Arc;

use ostler::adapter::{AgentModel, Calling, Message, ModelAdapter, ModelOptions, Stop};
use ostler::host::BridgeProgram;
use ostler::testing::{Events, MockAgent};
use ostler::{Agents, Cause, Host};
use ostler_testkit::processes::alive;

use super::{Part, Stage, ask, ask_listening, calculator, hello};
use crate::rig::{PATH, host, until};

/// A fake agent that calls the calculator and then repeats the result.
fn counting(part: Part) -> Stage {
    let call = part.announce_call("c1") + &part.calls("c1", 7) + &part.has_result("c1");
    let body = format!(
        "{}{call}dump-stdin $DIR/results\n{}",
        part.text("I count."),
        part.answers("It is 42.")
    );
    let mut stage = Stage::new(part, &body);
    stage.options.calling = Calling::Auto;
    stage
}

// One session and one process: the results arrive with the next messages.
#[tokio::test]
async fn the_session_waits_for_the_results() {
    for part in Part::BOTH {
        let stage = counting(part);
        let model = stage.model().bind_tools(vec![calculator()]);
        let mut messages = hello().to_vec();
        let (reply, streamed) = ask_listening(&*model, &messages).await;
        assert_eq!(
            (reply.content.as_str(), reply.stop),
            ("I count.", Stop::ToolCalls),
            "{part:?}"
        );
        assert_eq!(streamed.concat(), "I count.");
        let [call] = &reply.tool_calls[..] else {
            panic!("not one call: {reply:?}")
        };
        assert_eq!(
            (&*call.id, &*call.name, call.args.get()),
            ("c1", "calculator", r#"{"expression":"17 + 25"}"#)
        );
        assert!(model.reports_usage_late() && reply.usage.is_empty());
        assert_eq!(
            stage.prompt(),
            "[User]\nWhat is 17 + 25?",
            "the tools are not in the prompt"
        );
        let pid = stage.rig.pid("pid");
        assert!(alive(pid));
        messages.extend([reply.to_message(), Message::tool("c1", "it is 42")]);
        let (reply, streamed) = ask_listening(&*model, &messages).await;
        assert_eq!(
            (reply.content.as_str(), reply.stop, reply.tool_calls.len()),
            ("It is 42.", Stop::End, 0)
        );
        assert_eq!(streamed.concat(), "It is 42.");
        assert_eq!(reply.usage.len(), 1, "{reply:?}");
        assert_eq!(stage.rig.pid("pid"), pid);
        assert!(
            stage.rig.text("results").contains("it is 42"),
            "{}",
            stage.rig.text("results")
        );
        stage.assert_nothing_left();
    }
}

// A different conversation, or one without the results, does not continue the waiting session.
#[tokio::test]
async fn different_conversation_ends_the_waiting_session() {
    for part in Part::BOTH {
        let stage = counting(part);
        let model = stage.model().bind_tools(vec![calculator()]);
        ask(&*model, &hello()).await.unwrap();
        let pid = stage.rig.pid("pid");
        let reply = ask(&*model, &[Message::user("Something else.")])
            .await
            .unwrap();
        assert_eq!(reply.stop, Stop::ToolCalls);
        assert!(!alive(pid) && stage.rig.pid("pid") != pid);
        assert_eq!(stage.prompt(), "[User]\nSomething else.");
        let messages = [
            Message::user("Something else."),
            reply.to_message(),
            Message::user("Never mind."),
        ];
        ask(&*model, &messages).await.unwrap();
        assert!(
            stage.prompt().ends_with("[User]\nNever mind."),
            "{}",
            stage.prompt()
        );
    }
}

// Dropping the model ends its waiting session.
#[tokio::test]
async fn dropped_model_ends_its_waiting_session() {
    let stage = counting(Part::Claude);
    let model = stage.model().bind_tools(vec![calculator()]);
    ask(&*model, &hello()).await.unwrap();
    let pid = stage.rig.pid("pid");
    assert!(alive(pid));
    drop(model);
    until("the agent is gone", || !alive(pid)).await;
}

// The waiting agent has died, so the whole conversation is sent again.
#[tokio::test]
async fn conversation_is_resent_if_the_waiting_agent_died() {
    let stage = counting(Part::Claude);
    let model = stage.model().bind_tools(vec![calculator()]);
    let mut messages = hello().to_vec();
    let reply = ask(&*model, &messages).await.unwrap();
    let pid = stage.rig.pid("pid");
    ostler_testkit::scenario::signal(pid, ostler_testkit::scenario::Signal::KILL);
    until("the agent is gone", || !alive(pid)).await;
    messages.extend([reply.to_message(), Message::tool("c1", "42")]);
    let reply = ask(&*model, &messages).await.unwrap();
    assert_eq!(
        reply.stop,
        Stop::ToolCalls,
        "the fake agent begins from the start"
    );
    assert_ne!(stage.rig.pid("pid"), pid);
    assert!(
        stage.prompt().ends_with("[Tool Result (c1)]\n42"),
        "{}",
        stage.prompt()
    );
}

// Two calls in one message form one reply, and their results may arrive in any order.
#[tokio::test]
async fn two_calls_at_once() {
    for part in Part::BOTH {
        let both = part.announce_call("c1")
            + &part.announce_call("c2")
            + &part.calls("c1", 7)
            + &part.calls("c2", 8);
        let results = part.has_result("c1") + &part.has_result("c2");
        let mut stage = Stage::new(
            part,
            &format!(
                "{both}{results}dump-stdin $DIR/results\n{}",
                part.answers("Both.")
            ),
        );
        stage.options.calling = Calling::Native;
        let model = stage.model().bind_tools(vec![calculator()]);
        let mut messages = hello().to_vec();
        let reply = ask(&*model, &messages).await.unwrap();
        let ids: Vec<&str> = reply
            .tool_calls
            .iter()
            .map(|call| call.id.as_str())
            .collect();
        assert_eq!(ids, ["c1", "c2"], "{part:?}");
        messages.extend([
            reply.to_message(),
            Message::tool("c2", "the second"),
            Message::tool("c1", "the first"),
        ]);
        assert_eq!(ask(&*model, &messages).await.unwrap().content, "Both.");
        let results = stage.rig.text("results");
        assert!(
            results.contains("the first") && results.contains("the second"),
            "{results}"
        );
    }
}

// The agent uses its own Bash. Only the calculator is bound, so there is no result to wait for.
#[tokio::test]
async fn a_tool_that_is_not_bound_is_a_breach_here_too() {
    let mut stage = Stage::new(
        Part::Claude,
        &format!("{}sleep 100\n", Part::Claude.own_tool()),
    );
    stage.options.calling = Calling::Native;
    let error = ask(&*stage.model().bind_tools(vec![calculator()]), &hello())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("Bash"), "{error}");
    stage.assert_nothing_left();
}

// The cost of each reply is known if tools are called through the prompt.
#[tokio::test]
async fn with_usage_per_reply() {
    let mut stage = Stage::answering(Part::Claude, "42");
    stage.options.calling = Calling::Auto;
    let bound = stage.model().bind_tools(vec![calculator()]);
    let counting = bound.with_usage_per_reply().unwrap();
    assert!(bound.reports_usage_late() && !counting.reports_usage_late());
    ask(&*counting, &hello()).await.unwrap();
    assert!(
        stage.prompt().starts_with("Available tools:"),
        "{}",
        stage.prompt()
    );
}

// Without a bridge, an agent that needs one falls back to calling tools through the prompt, or
// fails if that is not allowed.
#[tokio::test]
async fn without_a_bridge_tools_are_called_through_the_prompt() {
    let bound = |host: Host, calling| {
        let program = Some("/nowhere/gemini".into());
        let options = ModelOptions {
            calling,
            program,
            ..ModelOptions::default()
        };
        AgentModel::new(Agents::builtin().get("gemini").unwrap(), host, options)
            .bind_tools(vec![calculator()])
    };
    let bare = || host(&[("PATH", PATH)]);
    let bridge = BridgeProgram {
        program: ostler_testkit::fake::program(),
        args: vec!["bridge".into()],
    };
    assert!(!bound(bare(), Calling::Auto).reports_usage_late());
    assert!(bound(bare().with_bridge(bridge), Calling::Auto).reports_usage_late());
    let error = ask(&*bound(bare(), Calling::Native), &hello())
        .await
        .unwrap_err();
    assert_eq!(error.cause(), Cause::Unavailable, "{error:?}");
    assert!(error.to_string().contains("bridge"), "{error}");
}

// S0-5: the agent has a built-in tool with the name of a bound one, and runs it itself.
#[tokio::test]
async fn built_in_tool_with_a_bound_name_is_a_breach() {
    let events = r#"
        {"type":"tool_call","id":"t1","name":"calculator","input":{"expression":"17 + 25"},"parent":null}
        {"wait_ms": 200}
        {"type":"tool_result","id":"t1","name":"calculator","ok":true,"output":"42","denied":false}
        {"hang": true}
    "#;
    let agent = MockAgent::playing(events.parse::<Events>().unwrap());
    let options = ModelOptions {
        calling: Calling::Native,
        ..ModelOptions::default()
    };
    let model =
        AgentModel::new(Arc::new(agent), Host::default(), options).bind_tools(vec![calculator()]);
    let error = ask(&*model, &hello()).await.unwrap_err();
    let native = error
        .outcome
        .detail
        .as_ref()
        .and_then(|detail| detail.native.as_deref());
    assert_eq!(
        (error.cause(), native),
        (Cause::Protocol, Some("own_tool")),
        "{error:?}"
    );
    assert!(error.to_string().contains("calculator"), "{error}");
}
