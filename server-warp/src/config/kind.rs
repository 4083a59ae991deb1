//! Kinds of values: parsing, expected values, and the field of the [`Config`].
//!
//! Each function here is a kind, which a row of `table.rs` names. The row's field is its first
//! argument.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Config;
use super::textual::Textual;
use super::units::{format_size, format_time, parse_size, parse_time};
use crate::http_client::read_roots;
use crate::partitions::PartitionAddress;
use crate::private_file::read_secret;

/// Value as a source contains it.
#[derive(Clone, Debug)]
pub(crate) enum Raw<'r> {
    /// Value from a variable or a flag, which is always text.
    Word(&'r OsStr),
    /// Text from a file.
    Text(Cow<'r, str>),
    /// Integer from a file.
    Integer(i128),
    /// Float from a file.
    Float(f64),
    /// Boolean from a file.
    Boolean(bool),
    /// List from a file.
    List(Vec<Raw<'r>>),
    /// Table from a file.
    Table(Vec<(Cow<'r, str>, Raw<'r>)>),
    /// Value from a file with a type that no setting accepts, by its name.
    Other(&'static str),
}

impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "{word:?}"),
            Self::Text(text) => write!(f, "the text {text:?}"),
            Self::Integer(number) => write!(f, "the number {number}"),
            Self::Float(number) => write!(f, "the number {number}"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::List(items) if items.is_empty() => f.write_str("an empty list"),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(ToString::to_string).collect();
                write!(f, "the list of {}", items.join(", "))
            }
            Self::Table(_) => f.write_str("a section"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// Value for display.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    None,
    /// True or false.
    Switch(bool),
    /// Integer.
    Number(u64),
    /// Fraction from 0 to 1.
    Ratio(f64),
    /// Number of bytes.
    Size(u64),
    /// Duration.
    Time(Duration),
    /// Text.
    Text(String),
    /// List of texts.
    List(Vec<String>),
    /// Texts by name.
    Map(Vec<(String, String)>),
}

impl Value {
    /// True if there is no value, or an empty list.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::List(items) => items.is_empty(),
            Self::Map(items) => items.is_empty(),
            _ => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Switch(value) => value.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Ratio(number) => number.fmt(f),
            Self::Size(bytes) => f.write_str(&format_size(*bytes)),
            Self::Time(time) => f.write_str(&format_time(*time)),
            Self::Text(text) => f.write_str(text),
            Self::List(items) => f.write_str(&items.join(",")),
            Self::Map(items) => {
                let items = items.iter().map(|(name, value)| format!("{name}={value}"));
                f.write_str(&items.collect::<Vec<_>>().join(";"))
            }
        }
    }
}

/// Accessors of a field of [`Config`]; created by [`field!`].
pub(super) struct Field<T> {
    pub(super) get: fn(&Config) -> &T,
    pub(super) get_mut: fn(&mut Config) -> &mut T,
}

/// Creates the [`Field`] of a path into [`Config`]: `field!(net.address)`.
macro_rules! field {
    ($($step:ident).+) => {
        $crate::config::kind::Field {
            get: |config| &config.$($step).+,
            get_mut: |config| &mut config.$($step).+,
        }
    };
}
pub(super) use field;

/// Sets the field to a value; false if the kind does not accept the value.
type Set = Box<dyn Fn(&mut Config, &Raw<'_>) -> bool + Send + Sync>;

/// Returns the reason why a start could not use the file that the value names.
type Inspect = Box<dyn Fn(&Config) -> Option<String> + Send + Sync>;

/// Kind of a setting's values, with the field that stores them.
pub(crate) struct Kind {
    /// Accepted values: `a number of connections from 1 to 10`.
    pub(crate) expects: String,
    /// Notation if it is not obvious, for error messages.
    pub(crate) notation: &'static str,
    /// Unit of the displayed value, if it has one.
    pub(crate) unit: Option<&'static str>,
    /// Placeholder of a value in usage lines.
    pub(crate) placeholder: &'static str,
    /// True if messages may quote an invalid value, which might contain a secret.
    pub(crate) may_be_shown: bool,
    /// Parses a value into the configuration.
    pub(crate) set: Set,
    /// Returns the value in the configuration.
    pub(crate) value: Box<dyn Fn(&Config) -> Value + Send + Sync>,
    /// Reads the file that the value names, if it names one.
    pub(super) inspect: Inspect,
}

impl Kind {
    fn new<T: 'static>(
        at: Field<T>,
        placeholder: &'static str,
        expects: impl Into<String>,
        parse: impl Fn(&Raw<'_>) -> Option<T> + Send + Sync + 'static,
        show: fn(&T) -> Value,
    ) -> Self {
        let Field { get, get_mut } = at;
        Self {
            expects: expects.into(),
            notation: "",
            unit: None,
            placeholder,
            may_be_shown: true,
            set: Box::new(move |config, raw| {
                let value = parse(raw);
                value.map(|value| *get_mut(config) = value).is_some()
            }),
            value: Box::new(move |config| show(get(config))),
            inspect: Box::new(|_| None),
        }
    }
}

/// True or false.
pub(super) fn switch(at: Field<bool>) -> Kind {
    let parse = |raw: &Raw<'_>| match raw {
        Raw::Boolean(value) => Some(*value),
        Raw::Word(word) => word.to_str()?.parse().ok(),
        _ => None,
    };
    let show = |value: &bool| Value::Switch(*value);
    Kind::new(at, "BOOL", "true or false", parse, show)
}

/// Integer within a range, with its unit: the counted items, in the plural.
pub(super) fn count<T>(at: Field<T>, range: RangeInclusive<u64>, unit: &'static str) -> Kind
where
    T: Copy + TryFrom<u64> + TryInto<u64> + 'static,
{
    let (min, max) = (*range.start(), *range.end());
    let expects = format!("a number of {unit} from {min} to {max}");
    let parse = move |raw: &Raw<'_>| {
        let number = match raw {
            Raw::Integer(number) => u64::try_from(*number).ok()?,
            Raw::Word(word) => word.to_str()?.parse().ok()?,
            _ => return None,
        };
        T::try_from(Some(number).filter(|number| range.contains(number))?).ok()
    };
    let show = |number: &T| Value::Number((*number).try_into().unwrap_or(u64::MAX));
    Kind {
        unit: Some(unit),
        ..Kind::new(at, "N", expects, parse, show)
    }
}

/// Size in bytes within a range.
pub(super) fn bytes<T>(at: Field<T>, range: RangeInclusive<u64>) -> Kind
where
    T: Copy + TryFrom<u64> + TryInto<u64> + 'static,
{
    let (min, max) = (format_size(*range.start()), format_size(*range.end()));
    let expects = format!("a size from {min} to {max}");
    let parse = move |raw: &Raw<'_>| {
        let bytes = match raw {
            Raw::Integer(number) => u64::try_from(*number).ok()?,
            Raw::Text(text) => parse_size(text)?,
            Raw::Word(word) => parse_size(word.to_str()?)?,
            _ => return None,
        };
        T::try_from(Some(bytes).filter(|bytes| range.contains(bytes))?).ok()
    };
    let show = |bytes: &T| Value::Size((*bytes).try_into().unwrap_or(u64::MAX));
    Kind {
        notation: ", in bytes or with a unit (KiB, MiB, GiB)",
        unit: Some("bytes"),
        ..Kind::new(at, "SIZE", expects, parse, show)
    }
}

/// Duration within a range.
pub(super) fn time(at: Field<Duration>, range: RangeInclusive<Duration>) -> Kind {
    let (min, max) = (format_time(*range.start()), format_time(*range.end()));
    let expects = format!("a time from {min} to {max}");
    let parse = move |raw: &Raw<'_>| {
        let time = parse_time(text_of(raw)?.to_str()?)?;
        range.contains(&time).then_some(time)
    };
    let show = |time: &Duration| Value::Time(*time);
    Kind {
        notation: ", with its unit (ms, s, m, h, d)",
        unit: Some("time"),
        ..Kind::new(at, "TIME", expects, parse, show)
    }
}

/// Fraction from 0 to 1.
pub(super) fn ratio(at: Field<f64>) -> Kind {
    let parse = |raw: &Raw<'_>| {
        let ratio = match raw {
            Raw::Float(number) => *number,
            Raw::Integer(0) => 0.0,
            Raw::Integer(1) => 1.0,
            Raw::Word(word) => word.to_str()?.parse().ok()?,
            _ => return None,
        };
        (0.0..=1.0).contains(&ratio).then_some(ratio)
    };
    let show = |ratio: &f64| Value::Ratio(*ratio);
    Kind::new(at, "SHARE", "a number from 0.0 to 1.0", parse, show)
}

/// Value that is written as text.
pub(super) fn text<T: Textual + 'static>(at: Field<T>) -> Kind {
    let parse = |raw: &Raw<'_>| T::read(text_of(raw)?);
    let show = |value: &T| value.write().map_or(Value::None, Value::Text);
    Kind {
        may_be_shown: T::MAY_BE_SHOWN,
        ..Kind::new(at, T::PLACEHOLDER, T::EXPECTS, parse, show)
    }
}

/// List of values that are written as text; separated by commas in a variable or a flag.
pub(super) fn list<T: Textual + 'static>(at: Field<Vec<T>>) -> Kind {
    let parse = |raw: &Raw<'_>| match raw {
        Raw::Word(word) if word.is_empty() => Some(Vec::new()),
        Raw::Word(word) => {
            let items = word.to_str()?.split(',');
            items.map(|item| T::read(item.trim().as_ref())).collect()
        }
        Raw::List(items) => items.iter().map(|item| T::read(text_of(item)?)).collect(),
        _ => None,
    };
    let show = |items: &Vec<T>| Value::List(items.iter().filter_map(T::write).collect());
    let expects = format!("a list, each item {}", T::EXPECTS);
    Kind {
        may_be_shown: T::MAY_BE_SHOWN,
        ..Kind::new(at, "LIST", expects, parse, show)
    }
}

/// One of these values.
pub(super) fn choice<T>(at: Field<T>, values: &'static [T], placeholder: &'static str) -> Kind
where
    T: Copy + fmt::Display + Sync,
{
    let names: Vec<_> = values.iter().map(ToString::to_string).collect();
    let (last, others) = names.split_last().expect("a choice has values");
    let expects = format!("{} or {last}", others.join(", "));
    let parse = |raw: &Raw<'_>| {
        let text = text_of(raw)?;
        let mut values = values.iter().copied();
        values.find(|value| value.to_string().as_str() == text)
    };
    let show = |value: &T| Value::Text(value.to_string());
    Kind::new(at, placeholder, expects, parse, show)
}

/// Path of a file that `knowledge config check` reads with a function that a start uses too.
pub(super) fn file<T: 'static, E: fmt::Display + 'static>(
    at: Field<Option<PathBuf>>,
    read: fn(&Path) -> Result<T, E>,
) -> Kind {
    let get = at.get;
    let inspect = move |config: &Config| {
        let problem = read(get(config).as_ref()?).err()?;
        Some(format!("cannot be used: {problem}"))
    };
    Kind {
        inspect: Box::new(inspect),
        ..text(at)
    }
}

/// File with a secret of one line, for its owner only.
pub(super) fn secret_file(at: Field<Option<PathBuf>>) -> Kind {
    file(at, read_secret)
}

/// PEM file with CA certificates.
pub(super) fn ca_file(at: Field<Option<PathBuf>>) -> Kind {
    file(at, read_roots)
}

/// Table of stores by name; `NAME=STORE`, separated by semicolons, in a variable or a flag.
pub(super) fn partitions(at: Field<Vec<PartitionAddress>>) -> Kind {
    let expects = "a table of stores by name, such as { eu = \"sled:DIR\" }, or in a variable \
                   eu=STORE;us=STORE, each name of the characters a-z 0-9 _ - and not home";
    let show = |partitions: &Vec<PartitionAddress>| {
        let each = |it: &PartitionAddress| (it.name.clone(), it.store.to_string());
        Value::Map(partitions.iter().map(each).collect())
    };
    Kind {
        may_be_shown: false,
        ..Kind::new(at, "TABLE", expects, parse_partitions, show)
    }
}

fn parse_partitions(raw: &Raw<'_>) -> Option<Vec<PartitionAddress>> {
    let mut partitions: Vec<_> = match raw {
        Raw::Word(word) => {
            let items = word.to_str()?.split(';').map(str::trim);
            let parse = |item: &str| {
                let (name, store) = item.split_once('=')?;
                PartitionAddress::parse(name.trim(), store.trim())
            };
            let items = items.filter(|item| !item.is_empty());
            items.map(parse).collect::<Option<_>>()?
        }
        Raw::Table(items) => items
            .iter()
            .map(|(name, store)| PartitionAddress::parse(name, text_of(store)?.to_str()?))
            .collect::<Option<_>>()?,
        _ => return None,
    };
    partitions.sort_by(|one, other| one.name.cmp(&other.name));
    let is_repeated = |pair: &[PartitionAddress]| pair[0].name == pair[1].name;
    (!partitions.windows(2).any(is_repeated)).then_some(partitions)
}

fn text_of<'r>(raw: &'r Raw<'_>) -> Option<&'r OsStr> {
    match raw {
        Raw::Word(word) => Some(word),
        Raw::Text(text) => Some(OsStr::new(&**text)),
        _ => None,
    }
}
