//! Filters for the caller's own index of memories.

use crate::access::Action;
use crate::error::Error;
use crate::keys;
use crate::limits::ACCESS_FILTER_MAX_AGE;
use crate::model::{
    AccessFilter, AccessFilterFormat, AccessFilterOptions, ReviewStatus, SensitivityLabel,
    WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::principal::Principal;
use crate::service::memories::labels::covering;
use crate::service::operation::Prefetch;
use crate::service::{Caller, Memories, WithEtag};
use crate::store::RangeRead;

/// # Access filters
impl Memories<'_> {
    /// Returns what the caller may read in a workspace now, as a filter for an index of its own.
    ///
    /// A memory in the workspace that has one of each of the labels is readable for the caller by
    /// [`Self::check_access`], and a readable one has them, apart from memories that the caller
    /// added and may not review, and from running erasures. The entity tag changes with the
    /// caller's rights.
    ///
    /// # Errors
    /// Those of [`Operation::GetAccessFilter`].
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::model::{AccessFilterFormat, AccessFilterOptions};
    ///
    /// let options = AccessFilterOptions::builder().format(AccessFilterFormat::Pgvector).build();
    /// let found = service.memories().access_filter(&viewer, workspace, &options).await?.value;
    /// let filter = found.filter.unwrap();
    /// assert_eq!(
    ///     filter["where"],
    ///     "workspace_id = $1 AND audience_tag = ANY ($2) AND sensitivity_label = ANY ($3) \
    ///      AND review_status = ANY ($4)",
    /// );
    /// assert_eq!(filter["parameters"][2], serde_json::json!(["public", "internal"]));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn access_filter(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        options: &AccessFilterOptions,
    ) -> Result<WithEtag<AccessFilter>, Error> {
        self.service
            .perform(Operation::GetAccessFilter, caller, |caller| async move {
                let slugs = RangeRead::all(keys::workspace_slugs(caller.org()));
                let prefetch = Prefetch::none().and_range(slugs);
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                let held = op.held_in(workspace);
                let sensitivities = SensitivityLabel::ALL.iter().copied();
                let readable = sensitivities
                    .filter(|label| Principal::missing_for_sensitivity(*label, held).is_none());
                let is_reviewer = held.contains(Action::MemoryReview);
                let shows_all = is_reviewer && !options.approved_only.unwrap_or(false);
                let reviews = ReviewStatus::ALL.iter().copied();
                let reviews =
                    reviews.filter(|status| shows_all || *status == ReviewStatus::Approved);
                let filter = AccessFilter {
                    workspace_id: workspace,
                    audience_tags: covering(&mut op).await?,
                    sensitivity_labels: readable.collect(),
                    review_statuses: reviews.collect(),
                    max_age: ACCESS_FILTER_MAX_AGE.as_secs(),
                    format: AccessFilterFormat::Plain,
                    filter: None,
                };
                let filter = filter.in_format(options.format.unwrap_or_default());
                op.done(WithEtag::strong(filter))
            })
            .await
    }
}
