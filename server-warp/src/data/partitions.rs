//! Data of several partitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use knowledge_core::env::Env;
use knowledge_core::partition::identity::{self, IdentityError};
use knowledge_core::partition::{HOME, HoldingStore};
use knowledge_core::service::Options;

use super::{Data, DataConfig, DataError, when_free};
use crate::partitions::{PartitionError, Partitions};

impl DataConfig {
    /// Opens the stores of the further partitions, which have the key of the first, and creates
    /// those that are missing and have not been opened before.
    ///
    /// # Errors
    /// [`IdentityError::New`] for a missing one that has been opened before, and those of
    /// [`DataConfig::open`].
    pub async fn open_partitions(&self, home: &Data) -> Result<Vec<(String, Data)>, DataError> {
        let identity = identity::read(&*home.store).await?;
        let known = identity.map_or_else(BTreeSet::new, |home| home.others);
        let mut opened = Vec::with_capacity(self.partitions.len());
        for partition in &self.partitions {
            let config = Self {
                store: partition.store.clone(),
                partitions: Vec::new(),
                ..self.clone()
            };
            if known.contains(&partition.name) && config.directory().is_some() {
                // Nothing is created in its place.
                config.require_store().map_err(|error| match error {
                    DataError::Missing { .. } => {
                        let name = partition.name.clone();
                        PartitionError::from(IdentityError::New { name }).into()
                    }
                    error => error,
                })?;
            }
            let backend = config.backend().await?;
            let data = Data {
                store: Arc::new(HoldingStore::new(backend.store())),
                sealing_key: home.sealing_key.clone(),
                backend,
                name: config.name(),
            };
            opened.push((partition.name.clone(), data));
        }
        Ok(opened)
    }

    /// Opens the stores of the further partitions like [`open_partitions`](Self::open_partitions),
    /// but waits for another process to release them, as [`open_when_free`](Self::open_when_free).
    ///
    /// # Errors
    /// Errors of [`DataConfig::open`].
    pub async fn open_partitions_when_free(
        &self,
        home: &Data,
    ) -> Result<Vec<(String, Data)>, DataError> {
        when_free(|| self.open_partitions(home)).await
    }

    /// Returns the configuration of the partition with this name, which may be that of `self`.
    ///
    /// # Errors
    /// [`DataError::UnknownPartition`], and errors of [`DataConfig::sealing_key_path`].
    pub fn partition(&self, name: &str) -> Result<Self, DataError> {
        let store = match self.partitions.iter().find(|found| found.name == name) {
            Some(found) => found.store.clone(),
            None if name == HOME => self.store.clone(),
            None => {
                let others = self.partitions.iter().map(|found| found.name.as_str());
                let known: Vec<_> = std::iter::once(HOME).chain(others).collect();
                return Err(DataError::UnknownPartition {
                    name: name.to_owned(),
                    known: known.join(", "),
                });
            }
        };
        Ok(Self {
            store,
            partitions: Vec::new(),
            sealing_key_file: Some(self.sealing_key_path()?),
            ..self.clone()
        })
    }
}

impl Data {
    /// Opens the services over this store, which has the directory, and those of the partitions.
    ///
    /// # Errors
    /// [`DataError::Service`], [`DataError::Partitions`].
    pub async fn partitions(
        &self,
        others: Vec<(String, Self)>,
        env: Env,
        options: Options,
    ) -> Result<Partitions, DataError> {
        let home = self.service(env.clone(), options.clone()).await?;
        let mut services = Vec::with_capacity(others.len());
        for (name, data) in others {
            let service = data.service(env.clone(), options.clone()).await?;
            services.push((name, service));
        }
        Ok(Partitions::open(home, services).await?)
    }
}
