//! Publication of an attempt as a signed item.

use ostler_core::event::Timestamp;
use ostler_eval::place::Placement;

use super::{AttemptDriver, RETRY};
use crate::item::{Item, MAX_ITEM_BYTES, PROTOCOL, Work};
use crate::seal::{self, Purpose};

/// How long an item is valid.
const VALIDITY_MS: i64 = 24 * 3600 * 1000;

impl AttemptDriver<'_> {
    /// Publishes the signed item. A copy that an earlier call has published is removed.
    pub(super) async fn publish(&mut self) -> Result<(), String> {
        let copy = self.copies;
        self.copies += 1;
        if let Some(earlier) = self.published.take() {
            self.place.connection.remove_item(earlier).await;
        }
        let Placement {
            request, services, ..
        } = &self.placement;
        let place = self.place;
        let work = place.attacher.prepare(request, services).await;
        let work = work.map_err(|error| error.to_string())?;
        let needs = self.needs.clone();
        let item = Item {
            protocol: PROTOCOL,
            id: self.item.clone(),
            owner: place.options.name.clone(),
            run: place.options.run.clone(),
            attempt: self.attempt.clone(),
            fence: request.attempt,
            not_after: Timestamp(self.now().0.saturating_add(VALIDITY_MS)),
            needs,
            work: Work::Trial(Box::new(work)),
        };
        let payload = serde_json::to_vec(&item).map_err(|error| error.to_string())?;
        let sealed = seal::seal(&place.options.key, Purpose::Item, &payload);
        let sealed = sealed.map_err(|error| error.to_string())?;
        if sealed.len() > MAX_ITEM_BYTES {
            let length = sealed.len();
            return Err(format!(
                "the case has {length} bytes without its files; at most {MAX_ITEM_BYTES} are sent"
            ));
        }
        let connection = &place.connection;
        let class = item.needs.class();
        // The server recognizes a message that this loop publishes twice, but not a later copy.
        let id = format!("{}/{copy}", item.id);
        loop {
            let created = place.create_class(&item.needs, copy > 0).await;
            let published = match created {
                Ok(()) => connection.publish_item(&class, &id, sealed.clone()).await,
                Err(error) => Err(error),
            };
            match published {
                Ok(sequence) => {
                    self.published = Some(sequence);
                    return Ok(());
                }
                // The server may be away for a while.
                Err(error) if *self.placement.hooks.cancelled.borrow() => {
                    return Err(error.to_string());
                }
                Err(error) => {
                    tracing::warn!(%error, "an item was not published");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}
