//! `Debug` of types with parts that have none, or that nobody wants to read.

/// Implements `Debug` for a type, with these of its fields: `partial_debug!(Data: name);`.
macro_rules! partial_debug {
    ($type:ident $(: $($field:ident),+)?) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    $($(.field(stringify!($field), &self.$field))+)?
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use partial_debug;
