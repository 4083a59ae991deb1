//! sled
