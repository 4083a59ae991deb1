//! Last uses of tokens, among them MCP keys, and of sessions.
//!
//! They are kept apart from the credentials, which every commit of a caller checks, and written at
//! most once an hour.

use crate::access::{Credential, CredentialRecord};
use crate::error::Error;
use crate::keys;
use crate::model::Timestamp;
use crate::service::audit::denied::window;
use crate::service::workspace::mcp_keys;
use crate::service::{Caller, KnowledgeService};

impl KnowledgeService {
    /// Records that a token or a session was used, if that was not recorded in this hour.
    ///
    /// [`Api`](crate::api::Api) calls it after every successful operation. If the record cannot be
    /// written, that is logged: the operation does not depend on it.
    pub async fn note_use(&self, caller: &Caller) {
        let Credential::Secret(secret) = caller.credential() else {
            return;
        };
        let (now, hash) = (self.env().now(), secret.hash());
        let [a, b, c, d, e, f, g, h, ..] = hash.0;
        let fingerprint = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let known = self.written_in_hour();
        if !known.with(window(now), |known| known.insert(fingerprint)) {
            return;
        }
        let mut attempts = 0;
        let written = self.transact(|mut transaction| {
            attempts += 1;
            let attempt = attempts;
            async move {
                if attempt > 1 {
                    return Err(Error::Conflict);
                }
                let key = keys::credential(hash);
                let Some(record) = transaction.get::<CredentialRecord>(&key).await? else {
                    return Ok(transaction.done(()));
                };
                // A use of an access token is one of its session, whose idle time-out it delays.
                let of_credential = |id| keys::credential_use(record.org_id, id);
                let mut used = vec![of_credential(record.id)];
                let session = record.idle_timeout().map(|timeout| timeout.session);
                if let Some(session) = session.filter(|session| *session != record.id) {
                    let exists = keys::credential_id(record.org_id, session);
                    let exists = transaction.get::<String>(&exists).await?;
                    used.extend(exists.map(|_| of_credential(session)));
                }
                used.extend(mcp_keys::use_of(&mut transaction, &record).await?);
                for used in used {
                    let before = transaction.unchecked().get::<Timestamp>(&used).await?;
                    if before.is_none_or(|before| window(before) != window(now)) {
                        transaction.put(used, &now);
                    }
                }
                Ok(transaction.done(()))
            }
        });
        if let Err(error) = written.await {
            // A later use in this hour is recorded instead.
            known.with(window(now), |known| known.remove(&fingerprint));
            tracing::warn!(%error, "a use of a credential is not recorded");
        }
    }
}
