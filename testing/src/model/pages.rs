//! Lists in pages.

use serde_json::Value;
use uuid::Uuid;

use super::{ErrorResponse, Expected, Model, Moment, Response};
use knowledge_core::ProblemCode;
use knowledge_core::service::PageRequest;
use knowledge_core::store::Direction;

/// Default and maximum number of items on a page.
const ITEMS: (usize, usize) = (50, 200);

impl Model {
    /// Returns the number of items and the position that a page follows.
    pub(crate) fn page_request(
        &self,
        list: &str,
        page: &PageRequest,
    ) -> Result<(usize, Option<Uuid>), Vec<ErrorResponse>> {
        let limit = page.limit.unwrap_or(ITEMS.0);
        if !(1..=ITEMS.1).contains(&limit) {
            return Err(ErrorResponse::invalid("limit", ProblemCode::InvalidValue).into());
        }
        let Some(cursor) = &page.cursor else {
            return Ok((limit, None));
        };
        match self.cursors.get(&cursor.to_string()) {
            Some((of, after)) if of == list => Ok((limit, Some(*after))),
            _ => Err(ErrorResponse::invalid("cursor", ProblemCode::InvalidValue).into()),
        }
    }

    /// Returns the cursor of the response, if it stands for this position of the list.
    ///
    /// Without `has_more`, it is unknown whether anything follows.
    pub(crate) fn next_cursor(
        &mut self,
        list: String,
        last: Option<Uuid>,
        has_more: Option<bool>,
        at: &Moment<'_>,
    ) -> Option<String> {
        let learned = at.learned;
        let learned = learned.and_then(|learned| learned.get::<String>("/next_cursor"));
        let place = (list, last?);
        match (learned, has_more) {
            (_, Some(false)) | (None, None) => None,
            (None, Some(true)) => Some("a cursor".to_owned()),
            (Some(text), _) => {
                let known = std::sync::Arc::make_mut(&mut self.cursors).entry(text.clone());
                let is_its_own = *known.or_insert_with(|| place.clone()) == place;
                Some(if is_its_own {
                    text
                } else {
                    format!("not {text}")
                })
            }
        }
    }

    /// Returns a page of a list of these items, which are in order of their identifiers.
    pub(crate) fn page(
        &mut self,
        (list, direction): (String, Direction),
        mut items: Vec<(Uuid, Value)>,
        page: &PageRequest,
        at: &Moment<'_>,
    ) -> Expected {
        let (limit, after) = self.page_request(&list, page)?;
        if direction == Direction::Reverse {
            items.reverse();
        }
        let is_left = |id: &Uuid| {
            after.is_none_or(|after| match direction {
                Direction::Forward => *id > after,
                Direction::Reverse => *id < after,
            })
        };
        items.retain(|(id, _)| is_left(id));
        let has_more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().map(|(id, _)| *id);
        let data: Vec<_> = items.into_iter().map(|(_, item)| item).collect();
        let next = self.next_cursor(list, last, Some(has_more), at);
        Ok(Response::page(data, &next))
    }
}
