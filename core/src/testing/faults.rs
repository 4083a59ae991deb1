//! A store wrapper that injects faults.
