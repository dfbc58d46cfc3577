//! Runs a scenario's task through the library, with any agent.

use std::ffi::OsString;
use std::sync::Arc;
use std::thread;

use ostler::dialect::Dialect;
use ostler::host::BridgeProgram;
use ostler::spec::{Denials, Limits};
use ostler::trust::WorkspaceTrust;
use ostler::{Agent, Agents, Event, Host, Remote, Session, Spec};
use ostler_testkit::fake;
use ostler_testkit::scenario::{Driver, Observed, Progress, Running, Subject, Task, TestEnv};

use crate::sessions::Scene;

/// The library, with an agent.
pub(crate) struct Library(pub(crate) &'static Subject);

struct Handle<'a>(Remote, &'a Progress);

impl Running for Handle<'_> {
    fn interrupt(&self) {
        self.0.interrupt();
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn wait_for(&self, kind: &str) {
        self.1.wait_for(kind);
    }
}

impl Driver for Library {
    fn subject(&self) -> &'static Subject {
        self.0
    }

    fn run(
        &self,
        place: &TestEnv,
        task: &Task,
        meanwhile: &(dyn Fn(&dyn Running) + Sync),
    ) -> Observed {
        let runtime = runtime();
        let mut session = {
            let _inside = runtime.enter();
            agent(self.0)
                .start(&host(place), spec(place, task))
                .unwrap()
        };
        let progress = Progress::default();
        let handle = Handle(session.remote(), &progress);
        let events = thread::scope(|scope| {
            scope.spawn(|| meanwhile(&handle));
            runtime.block_on(to_the_end(&mut session, &progress))
        });
        for event in &events {
            assert_eq!(
                Event::from_json(&event.to_json()).unwrap(),
                *event,
                "a serialized event can be parsed"
            );
        }
        let events = events
            .iter()
            .map(|event| serde_json::from_str(&event.to_json()).unwrap())
            .collect();
        Observed {
            subject: self.0,
            events,
            exit: None,
            served: place.server.served(),
        }
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) fn agent(subject: &Subject) -> Arc<dyn Agent> {
    Agents::builtin().get(subject.name).unwrap()
}

/// Returns the dialect used in a scene.
pub(crate) fn dialect(scene: &Scene) -> &'static dyn Dialect {
    let dialect = agent(scene.place.subject).dialect();
    dialect.select_transport(&scene.spec).unwrap_or(dialect)
}

pub(crate) fn host(place: &TestEnv) -> Host {
    let host = Host::new(
        place
            .host()
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value))),
    );
    let host = host.with_bridge(BridgeProgram {
        program: fake::program(),
        args: vec!["bridge".into()],
    });
    // The user's own sandbox policy, as the program finds it.
    match std::fs::read_to_string(place.outside("home/.config/ostler/sandbox.toml")) {
        Ok(text) => host.with_workspace(WorkspaceTrust {
            base: text.parse().unwrap(),
            ..Default::default()
        }),
        Err(_) => host,
    }
}

pub(crate) fn spec(place: &TestEnv, task: &Task) -> Spec {
    let mut spec = Spec::new(task.prompt.clone())
        .dir(place.work())
        .limits(Limits::default().wall(task.wall).idle(task.idle))
        .denials(if task.tolerate_denials {
            Denials::Tolerate
        } else {
            Denials::Fail
        });
    spec.program = place.program();
    spec.env = task
        .env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    let settings = task.settings_for(place.subject);
    spec.apply(&settings.into_iter().collect()).unwrap();
    spec
}

async fn to_the_end(session: &mut Session, progress: &Progress) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = session.next().await {
        let json: serde_json::Value = serde_json::from_str(&event.to_json()).unwrap();
        progress.record(json["type"].as_str().unwrap());
        events.push(event);
    }
    events
}
