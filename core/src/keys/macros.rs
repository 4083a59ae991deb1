//! Functions of the key families, from their declarations.

/// Defines the functions of the families, and their table.
macro_rules! define_keys {
    ($(
        $(#[doc = $about:literal])+
        $name:ident $parts:tt => $value:ty
        $(, range $range:ident $leading:tt)*
        $(, parser $parser:ident($($last:ident: $type:ty),+))?
        $(, with $other:ident $of:tt)*
        $(, counted by $counter:ident $counted:tt)*
        $(, checked by $module:ident::$check:ident $given:tt)?;
    )+) => {
        $(
            key_function! { $(#[doc = $about])+ $name $parts }
            $(range_function! { $name $range [] $leading $parts })*
            $(
                #[doc = concat!("Parses the last parts of a `", stringify!($name), "` key.")]
                #[must_use]
                pub fn $parser(key: &Key) -> Option<($($type),+)> {
                    let [$($last),+] = last_parts(key)?;
                    Some(($(Part::parse($last)?),+))
                }
            )?
        )+

        /// Parses every part of a key and builds the key again; `None` if it is not of the layout.
        #[cfg(any(test, feature = "internals"))]
        #[must_use]
        pub fn rebuilt(key: &Key) -> Option<Key> {
            let text = std::str::from_utf8(key.as_bytes()).ok()?;
            let mut parts = text.split(DIVIDER);
            let rebuilt = match parts.next()? {
                $(stringify!($name) => rebuilt_key!(parts $name $parts),)+
                _ => return None,
            };
            parts.next().is_none().then_some(rebuilt)
        }

        /// Families of keys in the order of their declaration.
        ///
        /// | key | value |
        /// | --- | --- |
        $(#[doc = concat!("| `", key_shape!($name $parts), "` |", $($about,)+ " |")])+
        pub const FAMILIES: &[Family] = &[$(Family {
            name: stringify!($name),
            parts: part_names!($parts),
            about: concat!($($about),+).trim_ascii(),
            #[cfg(test)]
            sample: |samples| sampled!(samples $name $parts),
            #[cfg(test)]
            ranges: &[$((
                stringify!($range),
                |samples: &mut Samples| sampled!(samples $range $leading),
            )),*],
        }),+];
    };
}

/// Defines the function that builds a key from its parts.
macro_rules! key_function {
    (
        $(#[doc = $about:literal])+
        $name:ident($($part:ident: $kind:ty $(as $form:ident)? $(= $($field:ident).+)?),*)
    ) => {
        #[doc = concat!("Builds a key of the family `", stringify!($name), "`.")]
        ///
        $(#[doc = $about])+
        #[must_use]
        pub fn $name($($part: $kind),*) -> Key {
            $($(let $part = $form::of($part);)?)*
            Builder::new(stringify!($name))$(.part(&$part))*.key()
        }
    };
}

/// Defines the function that builds a range from the leading parts of its keys.
macro_rules! range_function {
    (
        $family:ident $name:ident [$($typed:tt)*] ($first:ident $(, $more:ident)*)
        ($part:ident: $kind:ty $(as $form:ident)? $(= $($field:ident).+)? $(, $($rest:tt)*)?)
    ) => {
        range_function! {
            $family $name [$($typed)* $first: $kind,] ($($more),*) ($($($rest)*)?)
        }
    };
    ($family:ident $name:ident [$($part:ident: $kind:ty,)*] () $rest:tt) => {
        #[doc = concat!("Builds the range of `", stringify!($family), "` keys with these parts.")]
        #[must_use]
        pub fn $name($($part: $kind),*) -> KeyRange {
            Builder::new(stringify!($family))$(.part(&$part))*.range()
        }
    };
}

/// Builds a key from its parsed parts, or returns `None`.
#[cfg(any(test, feature = "internals"))]
macro_rules! rebuilt_key {
    (
        $parts:ident
        $name:ident($($part:ident: $kind:ty $(as $form:ident)? $(= $($field:ident).+)?),*)
    ) => {
        Builder::new(stringify!($name))
            $(.part(&<written!($kind $(as $form)?) as Part<'_>>::parse($parts.next()?)?))*
            .key()
    };
}

/// Returns the type that is written for a part.
macro_rules! written {
    ($kind:ty) => {
        $kind
    };
    ($kind:ty as $form:ident) => {
        $form
    };
}

/// Returns the key of a family for documentation: `family/{part}/{Sha256 of part}`.
macro_rules! key_shape {
    (
        $name:ident($($part:ident: $kind:ty $(as $form:ident)? $(= $($field:ident).+)?),*)
    ) => {
        concat!(
            stringify!($name),
            $("/{", $(stringify!($form), " of ",)? stringify!($part), "}"),*
        )
    };
}

/// Returns the names of the parts.
macro_rules! part_names {
    (($($part:ident: $kind:ty $(as $form:ident)? $(= $($field:ident).+)?),*)) => {
        &[$(stringify!($part)),*]
    };
}

/// Calls a function with a sample of each part.
#[cfg(test)]
macro_rules! sampled {
    (
        $samples:ident $function:ident
        ($($part:ident $(: $kind:ty $(as $form:ident)? $(= $($field:ident).+)?)?),*)
    ) => {{
        let _ = &$samples;
        $function($($samples.next(stringify!($part))),*)
    }};
}

#[cfg(any(test, feature = "internals"))]
pub(super) use rebuilt_key;
#[cfg(test)]
pub(super) use sampled;
pub(crate) use written;
pub(super) use {define_keys, key_function, key_shape, part_names, range_function};
