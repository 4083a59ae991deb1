//! Tests of moves that are refused, and of what is left to a move by others.

use std::sync::Arc;

use knowledge_core::internals::keys;
use knowledge_core::partition::identity::{self, IdentityError};
use knowledge_core::partition::{
    Directory, DirectoryError, HOME, MoveError, MoveOutcome, Relocation, Stores,
};
use knowledge_core::store::{MemoryStore, Store, StoreExt};

use crate::partitions::{Site, contents, knows, of, service_over, token, verify};

fn directory(site: &Site) -> Directory {
    Directory::new(Arc::<MemoryStore>::clone(&site.home))
}

async fn refusal(site: &Site, home: &Arc<MemoryStore>, eu: &Arc<MemoryStore>) -> IdentityError {
    let before = (contents(&**home).await, contents(&**eu).await);
    let store = |store: &Arc<MemoryStore>| -> Arc<dyn Store> { Arc::<MemoryStore>::clone(store) };
    let stores: Stores = [(HOME.to_owned(), store(home)), ("eu".to_owned(), store(eu))].into();
    let (org, to) = (site.org.id, "eu");
    let refused = Relocation { org, to }.run(&stores, |_, _| {}).await;
    assert_eq!((contents(&**home).await, contents(&**eu).await), before);
    match refused {
        Err(MoveError::Identity(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn store_that_is_not_the_partition_is_refused() {
    let site = Site::small().await;
    let unused = Arc::new(MemoryStore::new());
    let refused = refusal(&site, &site.home, &unused).await;
    assert_eq!(
        refused.to_string(),
        "no server has opened the partition \"eu\"; start the servers with it first"
    );
    // One store under two names, and names that were exchanged.
    for (home, eu) in [(&site.home, &site.home), (&site.eu, &site.home)] {
        let refused = refusal(&site, home, eu).await;
        assert!(matches!(refused, IdentityError::Other { .. }), "{refused}");
    }
    let renamed = identity::establish(&*site.home, &[("us", &*site.eu)], []).await;
    assert!(matches!(renamed, Err(IdentityError::Other { .. })));
    let kept = identity::read(&*site.eu).await.unwrap().unwrap();
    assert_eq!(kept.name, "eu");
}

#[tokio::test]
async fn new_store_takes_the_place_of_no_known_partition() {
    let site = Site::small().await;
    let [home, eu] = [&*site.home, &*site.eu].map(|store| store as &dyn Store);
    let new = MemoryStore::new();
    let nowhere: [&str; 0] = [];
    for (home, eu, name) in [(home, &new as &dyn Store, "eu"), (&new, eu, HOME)] {
        let refused = identity::establish(home, &[("eu", eu)], nowhere).await;
        assert!(
            matches!(&refused, Err(IdentityError::New { name: found }) if found == name),
            "{refused:?}"
        );
    }
    // The directory of a restored home names what the store itself does not.
    let refused = identity::establish(home, &[("us", &new)], ["us"]).await;
    assert!(
        matches!(refused, Err(IdentityError::New { .. })),
        "{refused:?}"
    );
    assert_eq!(contents(&new).await, [].into());
    identity::establish(home, &[("us", &new)], nowhere)
        .await
        .expect("a further partition");
    let known = identity::read(home).await.unwrap().unwrap().others;
    assert!(known.iter().eq(["eu", "us"]), "{known:?}");
}

#[tokio::test]
async fn organisation_is_not_moved_from_or_to_an_older_copy_of_a_partition() {
    let site = Site::small().await;
    let older = site.copy().await;
    site.move_to("eu").await.unwrap();
    let older_home = Site {
        home: Arc::clone(&older.home),
        ..site.clone()
    };
    let older_eu = Site {
        eu: older.eu,
        ..site.clone()
    };
    for (site, to, expected) in [
        (&older_home, "eu", "already has"),
        (&older_eu, HOME, "lacks"),
        (&older_eu, "eu", "lacks"),
    ] {
        let before = (contents(&*site.home).await, contents(&*site.eu).await);
        let refused = site.move_to(to).await.expect_err("an older copy");
        let message =
            format!("the partition \"eu\" {expected} the organisation, which the directory");
        assert!(refused.to_string().starts_with(&message), "{refused}");
        let after = (contents(&*site.home).await, contents(&*site.eu).await);
        assert_eq!(after, before);
    }
    // With the right stores, nothing is lost.
    site.move_to(HOME).await.unwrap();
    assert!(knows(&site.home, &site.org).await);
}

#[tokio::test]
async fn organisation_that_is_deleted_during_its_move_leaves_nothing() {
    for (first, from, to) in [(HOME, HOME, "eu"), ("eu", "eu", HOME)] {
        let site = Site::small().await;
        site.move_to(first).await.unwrap();
        // After it has been recorded, and its first entries were copied.
        assert!(!site.stopped_after(to, 5).await);
        let store = match from {
            HOME => &site.home,
            _ => &site.eu,
        };
        let service = service_over(store).await;
        let provisioning = service.provisioning();
        provisioning.delete_organization(site.org.id).await.unwrap();
        let ended = site.move_to(to).await;
        assert!(matches!(ended, Err(MoveError::Deleted)), "{ended:?}");
        while service
            .maintain(service.env().now())
            .await
            .unwrap()
            .has_more
        {}
        for store in [&site.home, &site.eu] {
            assert_eq!(of(site.org.id, &contents(&**store).await), [].into());
            verify(store).await;
        }
        let slug = &site.org.slug;
        assert_eq!(directory(&site).organization(slug).await.unwrap(), None);
        let again = site.move_to(to).await;
        assert!(
            matches!(again, Err(MoveError::UnknownOrganization)),
            "{again:?}"
        );
    }
}

#[tokio::test]
async fn directory_forgets_no_organisation_that_is_elsewhere_or_moved() {
    let site = Site::small().await;
    let org = site.org.id;
    site.move_to("eu").await.unwrap();
    assert!(!site.stopped_after(HOME, 5).await);
    let refused = directory(&site).forget(org, "eu").await;
    assert!(
        matches!(refused, Err(DirectoryError::Changed)),
        "{refused:?}"
    );
    site.move_to(HOME).await.unwrap();
    site.move_to("eu").await.unwrap();
    let refused = directory(&site).forget(org, "us").await;
    assert!(
        matches!(refused, Err(DirectoryError::Changed)),
        "{refused:?}"
    );
    directory(&site).forget(org, "eu").await.unwrap();
    assert_eq!(directory(&site).placement(org).await.unwrap(), None);
    let slug = &site.org.slug;
    assert_eq!(directory(&site).organization(slug).await.unwrap(), None);
}

#[tokio::test]
async fn hold_without_a_move_ends_with_a_move_to_the_same_partition() {
    let site = Site::small().await;
    site.hold().await;
    let service = service_over(&site.home).await;
    let memory = site.org.side.memories.internal[0];
    let token = token(&site.org);
    assert!(service.memories().delete(&token, memory).await.is_err());
    assert_eq!(site.move_to(HOME).await.unwrap(), MoveOutcome::Unmoved);
    service.memories().delete(&token, memory).await.unwrap();
    let hold = keys::hold(site.org.id);
    assert_eq!(site.home.get(&[hold]).await.unwrap(), [None]);
}
