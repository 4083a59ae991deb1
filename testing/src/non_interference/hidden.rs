//! What others do: memories that are set up, changes that both worlds see, and hidden ones.

use std::collections::BTreeSet;

use super::choices::Choices;
use super::kinds::{PAT, WORKSPACES};
use super::world::{Known, World};
use crate::authorization::{Labels, Use, Verdict};
use crate::requests::{new_chat, new_memory, new_recall, with};
use knowledge_core::Error;
use knowledge_core::model::{MemoryChange, MemoryId, MemoryUpdate, NewErasure};
use knowledge_core::service::IngestedMemory;

/// Texts of memories, few enough to be guessed.
pub(super) const TEXTS: [&str; 2] = ["Alpha.", "Beta."];
/// Source keys of memories.
pub(super) const KEYS: [&str; 3] = ["page/0", "page/1", "page/2"];
/// Audience labels, of which each principal is covered by a few.
pub(super) const AUDIENCES: [&str; 8] = [
    "workspace:main",
    "user:olga",
    "team:legal",
    "org:acme",
    "workspace:side",
    "team:sales",
    "user:pat",
    "user:nora",
];
/// Label of the private workspace that the second world alone has. To the principal it is like one
/// that covers nobody.
pub(super) const CELLAR_LABEL: &str = "workspace:cellar";
pub(super) const SENSITIVITIES: [&str; 4] = ["internal", "public", "confidential", "restricted"];
pub(super) const REVIEWS: [&str; 3] = ["approved", "pending", "rejected"];

fn labels(choices: &mut Choices<'_>, workspace: &str, author: &str) -> Labels {
    let mut one = |of: &[&'static str]| *choices.of(of).expect("there are some");
    let (audience, sensitivity, review) = (one(&AUDIENCES), one(&SENSITIVITIES), one(&REVIEWS));
    Labels::new(workspace, audience, sensitivity, review, author)
}

fn change(labels: &Labels) -> MemoryChange {
    MemoryChange::builder()
        .audience_tag(labels.audience.parse().expect("a label"))
        .sensitivity_label(labels.sensitivity.parse().expect("a label"))
        .review_status(labels.review.parse().expect("a status"))
        .build()
}

/// Returns the memory of a batch; `None` if the principal may not add any, or has erased its key.
fn only_memory(ingested: Result<Vec<IngestedMemory>, Error>) -> Result<Option<MemoryId>, Error> {
    match ingested {
        Err(Error::Forbidden { .. }) => Ok(None),
        ingested => Ok(ingested?[0].id),
    }
}

impl World {
    /// Adds a memory whose attributes follow from the choices.
    ///
    /// The attributes that the principal may not know differ between the worlds: labels, text and
    /// existence of a hidden memory, and the text of a memory of which only the labels are visible.
    pub(super) async fn add(&mut self, choices: &mut Choices<'_>) -> Result<(), Error> {
        let place = usize::from(choices.once_in(4));
        let author = [PAT, "olga"][usize::from(!choices.once_in(3))];
        let slug = WORKSPACES[place];
        let mut both = [labels(choices, slug, author), labels(choices, slug, author)];
        let access = self.access();
        let verdicts = [0, 1].map(|index| access.verdict(&both[index], &Use::Read));
        let is_hidden = verdicts == [Verdict::Unknown; 2];
        if !is_hidden {
            both[1] = both[0].clone();
        }
        let is_sealed = verdicts[0] == Verdict::Labels
            && self.cannot_widen(&both[0])
            // Whoever sends it again sees by the review status whether the text is the stored one.
            && author != PAT;
        let title = TEXTS[choices.below(2)];
        let texts = [TEXTS[choices.below(2)], TEXTS[choices.below(2)]];
        let key = if choices.once_in(2) {
            choices.of(&KEYS).copied()
        } else {
            None
        };
        // Each key is used once, so that nothing is updated here.
        let key = key.filter(|key| self.keys.insert((place, key)));
        if key.is_some() && self.has_removals {
            let [first, second] = &mut both;
            second.sensitivity.clone_from(&first.sensitivity);
        }
        let is_gone =
            [choices.once_in(3), choices.once_in(3)].map(|gone| gone && is_hidden && key.is_none());
        let world = usize::from(self.is_second);
        let text = texts[if is_hidden || is_sealed { world } else { 0 }];
        let new = with(new_memory(title), |new| {
            new.content = text.to_owned();
            new.source_key = key.map(str::to_owned);
        });
        let (stored_title, stored_text) = (new.title.clone(), new.content.clone());
        let by = match author {
            PAT => self.trusted_pat(),
            _ => self.seed.owner.clone(),
        };
        let (service, workspace) = (self.seed.service.clone(), self.workspaces[place]);
        let batch = [new];
        // A source is not revealed by what is hidden there.
        let source = usize::from(is_hidden && self.is_second && key.is_none());
        let added = service
            .memories()
            .ingest(&by, workspace, self.sources[source], &batch);
        let Some(added) = only_memory(added.await)? else {
            return Ok(());
        };
        self.relabel(added, &both[world]).await?;
        if is_gone[world] {
            let memories = service.memories();
            memories.delete(&self.seed.owner, added).await?;
        }
        self.memories.push(Known {
            id: added,
            differs: is_hidden || is_sealed,
            has_key: key.is_some(),
            is_cited: false,
            key,
            title: stored_title,
            text: stored_text,
        });
        Ok(())
    }

    async fn relabel(&self, memory: MemoryId, labels: &Labels) -> Result<(), Error> {
        let stored = self.labels(memory).await?;
        let covers_owner = |stored: &Labels| match stored.audience.as_str() {
            "user:olga" => true,
            CELLAR_LABEL => false,
            other => !other.starts_with("team:") && !other.starts_with("user:"),
        };
        if labels.review != "pending" && stored.is_some_and(|stored| !covers_owner(&stored)) {
            // Only its audience reviews a memory, so the owner becomes that first. It hides what
            // was hidden before.
            let for_owner = MemoryChange::builder();
            let for_owner = for_owner.audience_tag("user:olga".parse().expect("a label"));
            self.update_labels(memory, for_owner.build()).await?;
        }
        self.update_labels(memory, change(labels)).await
    }

    /// Changes the labels of a memory by the owner.
    async fn update_labels(&self, memory: MemoryId, change: MemoryChange) -> Result<(), Error> {
        let update = MemoryUpdate::builder().change(change).build();
        let (service, owner) = (&self.seed.service, &self.seed.owner);
        let updated = service.memories().update(owner, memory, &update, None);
        updated.await.map(drop)
    }

    /// Creates a recall and a chat in both worlds.
    pub(super) async fn add_common(&mut self) -> Result<(), Error> {
        let (service, owner) = (self.seed.service.clone(), self.seed.owner.clone());
        let main = self.workspaces[0];
        let mut cited = BTreeSet::new();
        for known in self.memories.iter().filter(|known| !known.differs) {
            let labels = self.labels(known.id).await?;
            let in_main =
                |labels: Labels| labels.workspace == "main" && labels.review == "approved";
            if labels.is_some_and(in_main) {
                cited.insert(known.id);
            }
        }
        let ids: Vec<_> = cited.iter().copied().collect();
        // The owner is not covered by every label, and what it is not covered by cannot be cited.
        let asked = new_recall(&ids[..ids.len().min(2)]);
        if let Ok(recall) = service.recalls().create(&owner, main, &asked).await {
            self.cite(&cited);
            self.note("recalls", recall.id.to_string());
        }
        let chat = with(new_chat("Plans"), |new| {
            new.participants = vec![self.pat.member];
        });
        let chat = service.chats().create(&owner, main, &chat).await?.id;
        service
            .chats()
            .post_message(&owner, main, chat, "Hello.")
            .await?;
        self.note("chats", chat.to_string());
        Ok(())
    }

    /// Changes a memory in the same way in both worlds, unless it differs between them.
    pub(super) async fn change_common(&mut self, choices: &mut Choices<'_>) -> Result<(), Error> {
        let known: Vec<_> = self
            .memories
            .iter()
            .filter(|known| !known.differs)
            .collect();
        let Some(known) = choices.of(&known) else {
            return Ok(());
        };
        let id = known.id;
        let Some(before) = self.labels(id).await? else {
            return Ok(());
        };
        let mut after = labels(choices, &before.workspace, &before.author);
        if choices.once_in(2) {
            after.audience = "user:olga".to_owned();
        }
        self.relabel(id, &after).await
    }

    /// Changes one of the worlds in a way that must stay hidden from the principal.
    pub(super) async fn change_hidden(&mut self, choices: &mut Choices<'_>) -> Result<(), Error> {
        let is_here = choices.once_in(2) == self.is_second;
        let act = choices.below(5);
        let index = choices.below(self.memories.len());
        let Some(known) = self.memories.get(index).cloned() else {
            return Ok(());
        };
        if !self.is_hidden(known.id).await? {
            return Ok(());
        }
        let stored = self.labels(known.id).await?;
        let (is_pinned, is_kept) = (self.is_pinned(&known), known.has_key || known.is_cited);
        self.memories[index].differs = true;
        let changed = stored.clone().filter(|_| is_here);
        match act {
            0 | 1 => match changed {
                Some(before) => self.relabel_hidden(choices, &known, &before).await,
                None => Ok(()),
            },
            // A change of the text begins the period of its retention again.
            2 if !is_pinned => match changed {
                Some(before) => self.rewrite_hidden(choices, index, &before).await,
                None => Ok(()),
            },
            3 if !is_kept => {
                self.remove_hidden(choices, known.id, changed.is_some())
                    .await
            }
            _ => self.talk_of_hidden(known.id, stored).await,
        }
    }

    /// Changes the labels of a hidden memory, if it stays hidden.
    async fn relabel_hidden(
        &mut self,
        choices: &mut Choices<'_>,
        known: &Known,
        before: &Labels,
    ) -> Result<(), Error> {
        let mut after = labels(choices, &before.workspace, &before.author);
        if self.is_pinned(known) {
            after.sensitivity.clone_from(&before.sensitivity);
        }
        if self.access().verdict(&after, &Use::Read) == Verdict::Unknown {
            self.relabel(known.id, &after).await?;
        }
        Ok(())
    }

    /// Changes the text of a hidden memory. Only those whom the audience covers may do that.
    async fn rewrite_hidden(
        &mut self,
        choices: &mut Choices<'_>,
        index: usize,
        before: &Labels,
    ) -> Result<(), Error> {
        let for_owner = Labels {
            audience: "user:olga".to_owned(),
            ..before.clone()
        };
        if self.access().verdict(&for_owner, &Use::Read) != Verdict::Unknown {
            return Ok(());
        }
        let id = self.memories[index].id;
        self.relabel(id, &for_owner).await?;
        let text = TEXTS[choices.below(2)];
        let update = MemoryUpdate::builder().content(text.to_owned());
        let update = update.change(change(&for_owner)).build();
        let (service, owner) = (self.seed.service.clone(), self.seed.owner.clone());
        let updated = service.memories().update(&owner, id, &update, None);
        updated.await?;
        self.memories[index].text = text.to_owned();
        Ok(())
    }

    /// Deletes or erases a hidden memory, in one of the worlds.
    async fn remove_hidden(
        &mut self,
        choices: &mut Choices<'_>,
        id: MemoryId,
        is_here: bool,
    ) -> Result<(), Error> {
        let (is_erased, is_left_running) = (choices.once_in(2), choices.once_in(2));
        // An exception: the author of a memory under review is told of its changes unless it is
        // deleted before they are announced.
        self.announce().await?;
        if !is_here {
            return Ok(());
        }
        // Its receipt is for holders of the action, whom nothing is hidden from there.
        if is_erased && !self.access().actions().contains("erasure:manage") {
            let named = NewErasure::builder().memory_ids(vec![id]).build();
            self.erase(&named, is_left_running).await.map(drop)
        } else {
            let (service, owner) = (self.seed.service.clone(), self.seed.owner.clone());
            service.memories().delete(&owner, id).await
        }
    }

    /// Adds a recall and a chat about a hidden memory to the first world.
    ///
    /// The memory stays hidden, so that the recall does.
    async fn talk_of_hidden(&mut self, id: MemoryId, stored: Option<Labels>) -> Result<(), Error> {
        self.cite(&BTreeSet::from([id]));
        if !self.is_second {
            self.add_hidden_talk(id, stored).await?;
        }
        // The principal names them in both worlds. An exception: whoever holds `erasure:manage` may
        // delete chats and recalls of others.
        let may_delete = self.access().actions().contains("erasure:manage");
        let added = self.hidden_ids.get(&self.moves).cloned();
        for (collection, id) in added.filter(|_| !may_delete).unwrap_or_default() {
            self.note(collection, id);
        }
        Ok(())
    }

    /// Cites a hidden memory in a recall, and talks about it in a chat.
    async fn add_hidden_talk(&mut self, id: MemoryId, stored: Option<Labels>) -> Result<(), Error> {
        let (service, owner) = (self.seed.service.clone(), self.seed.owner.clone());
        let mut added = Vec::new();
        if let Some(stored) = stored {
            let index = WORKSPACES.iter().position(|slug| *slug == stored.workspace);
            let place = self.workspaces[index.expect("a workspace")];
            // It fails for a memory that awaits review, or does not cover the owner.
            let new = new_recall(&[id]);
            if let Ok(recall) = service.recalls().create(&owner, place, &new).await {
                added.push(("recalls", recall.id.to_string()));
            }
        }
        let new = with(new_chat("Secret"), |new| new.participants = vec![self.nora]);
        let place = self.workspaces[0];
        match service.chats().create(&owner, place, &new).await {
            Ok(chat) => {
                let chat = chat.id;
                service
                    .chats()
                    .post_message(&owner, place, chat, "Psst.")
                    .await?;
                added.push(("chats", chat.to_string()));
            }
            // The owner is being erased.
            Err(Error::Conflict) => {}
            Err(error) => return Err(error),
        }
        self.hidden_ids.insert(self.moves, added);
        Ok(())
    }
}
