//! Kinds of values: parsing, expected values, and the field of the [`Config`].

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::time::Duration;

use super::Config;
use super::textual::Textual;
use super::units::{format_size, format_time, parse_size, parse_time};

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
pub(crate) enum Value {
    None,
    Switch(bool),
    Number(u64),
    Ratio(f64),
    Size(u64),
    Time(Duration),
    Text(String),
    List(Vec<String>),
    Map(Vec<(String, String)>),
}

impl Value {
    /// True if there is no value, or an empty list.
    pub(crate) fn is_empty(&self) -> bool {
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

/// Error of a value that the setting does not accept.
#[derive(Debug)]
pub(crate) struct InvalidValue;

/// Kind of a setting's values, with the field that stores them.
pub(crate) trait Kind: Sync {
    /// Describes the accepted values: `a number of connections from 1 to 10`.
    fn expects(&self) -> String;

    /// Describes the notation if it is not obvious, for error messages.
    fn notation(&self) -> &'static str {
        ""
    }

    /// Returns the unit of the displayed value, if it has one.
    fn unit(&self) -> Option<&'static str>;

    /// Returns the placeholder of a value in usage lines.
    fn placeholder(&self) -> &'static str;

    /// True if messages may quote a rejected value, which might contain a secret.
    fn may_be_shown(&self) -> bool {
        true
    }

    /// Parses a value into the configuration.
    fn set(&self, config: &mut Config, raw: &Raw<'_>) -> Result<(), InvalidValue>;

    /// Returns the value in the configuration.
    fn value(&self, config: &Config) -> Value;
}

/// Accessors of a field of [`Config`]; created by [`field!`].
pub(crate) struct Field<T> {
    pub(super) get: fn(&Config) -> &T,
    pub(super) get_mut: fn(&mut Config) -> &mut T,
}

impl<T> Field<T> {
    fn put(&self, config: &mut Config, value: T) {
        *(self.get_mut)(config) = value;
    }
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

/// True or false.
pub(crate) struct Switch(pub(super) Field<bool>);

impl Kind for Switch {
    fn expects(&self) -> String {
        "true or false".to_owned()
    }

    fn unit(&self) -> Option<&'static str> {
        None
    }

    fn placeholder(&self) -> &'static str {
        "BOOL"
    }

    fn set(&self, config: &mut Config, raw: &Raw<'_>) -> Result<(), InvalidValue> {
        let value = match raw {
            Raw::Boolean(value) => *value,
            Raw::Word(word) => word
                .to_str()
                .and_then(|word| word.parse().ok())
                .ok_or(InvalidValue)?,
            _ => return Err(InvalidValue),
        };
        self.0.put(config, value);
        Ok(())
    }

    fn value(&self, config: &Config) -> Value {
        Value::Switch(*(self.0.get)(config))
    }
}

/// Integer with a unit.
pub(crate) struct Count<T> {
    pub(super) at: Field<T>,
    /// Counted items, in the plural.
    pub(super) unit: &'static str,
    pub(super) min: u64,
    pub(super) max: u64,
}

impl<T: Copy + TryFrom<u64> + TryInto<u64>> Kind for Count<T> {
    fn expects(&self) -> String {
        format!(
            "a number of {} from {} to {}",
            self.unit, self.min, self.max
        )
    }

    fn unit(&self) -> Option<&'static str> {
        Some(self.unit)
    }

    fn placeholder(&self) -> &'static str {
        "N"
    }

    fn set(&self, config: &mut Config, raw: &Raw<'_>) -> Result<(), InvalidValue> {
        let number = match raw {
            Raw::Integer(number) => u64::try_from(*number).ok(),
            Raw::Word(word) => word.to_str().and_then(|word| word.parse().ok()),
            _ => None,
        };
        let number = number.filter(|number| (self.min..=self.max).contains(number));
        let value = T::try_from(number.ok_or(InvalidValue)?).map_err(|_| InvalidValue)?;
        self.at.put(config, value);
        Ok(())
    }

    fn value(&self, config: &Config) -> Value {
        Value::Number((*(self.at.get)(config)).try_into().unwrap_or(u64::MAX))
    }
}

/// Size in bytes.
pub(crate) struct Bytes<T> {
    pub(super) at: Field<T>,
    pub(super) min: u64,
    pub(super) max: u64,
}

impl<T: Copy + TryFrom<u64> + TryInto<u64>> Kind for Bytes<T> {
    fn expects(&self) -> String {
        format!(
            "a size from {} to {}",
            format_size(self.min),
            format_size(self.max)
        )
    }

    fn notation(&self) -> &'static str {
        ", in bytes or with a unit (KiB, MiB, GiB)"
    }

    fn unit(&self) -> Option<&'static str> {
        Some("bytes")
    }

    fn placeholder(&self) -> &'static str {
        "SIZE"
    }

    fn set(&self, config: &mut Config, raw: &Raw<'_>) -> Result<(), InvalidValue> {
        let bytes = match raw {
            Raw::Integer(number) => u64::try_from(*number).ok(),
            Raw::Text(text) => parse_size(text),
            Raw::Word(word) => word.to_str().and_then(parse_size),
            _ => None,
        };
        let bytes = bytes.filter(|bytes| (self.min..=self.max).contains(bytes));
        let value = T::try_from(bytes.ok_or(InvalidValue)?).map_err(|_| InvalidValue)?;
        self.at.put(config, value);
        Ok(())
    }

    fn value(&self, config: &Config) -> Value {
        Value::Size((*(self.at.get)(config)).try_into().unwrap_or(u64::MAX))
    }
}

/// Duration.
pub(crate) struct Time {
    pub(super) at: Field<Duration>,
    pub(super) min: Duration,
    pub(super) max: Duration,
}

impl Kind for Time {
    fn expects(&self) -> String {
        format!(
            "a time from {} to {}",
            format_time(self.min),
            format_time(self.max)
        )
    }

    fn notation(&self) -> &'static str {
        ", with its unit (ms, s, m, h, d)"
    }

    fn unit(&self) -> Option<&'static str> {
        Some("time")
    }

    fn placeholder(&self) -> &'static str {
        "TIME"
    }

    fn set(&self, config: &mut Config, raw: &Raw<'_>) -> Result<(), InvalidValue> {
        let time = match raw {
            Raw::Text(text) => parse_time(text),
            Raw::Word(word) => word.to_str().and_then(parse_time),
            _ => None,
        };
        let time = time.filter(|time| (self.min..=self.max).contains(time));
        self.at.put(config, time.ok_or(InvalidValue)?);
        Ok(())
    }

    fn value(&self, config: &Config) -> Value {
        Value::Time(*(self.at.get)(config))
    }
}

/// Fraction from 0 to 1.
pub(crate) struct Ratio(pub(super) Field<f64>);

impl Kind for Ratio {
    fn expects(&self) -> String {
        "a number from 0.0 to 1.0".to_owned()
    }

    fn unit(&self) -> Option<&'static str> {
        None
    }

    fn placeholder(&self) -> &'static str {
        "SHARE"
    }

    fn set(&self, config: &mut Config, raw: &Raw<'_>) -> Result<(), InvalidValue> {
        let share = match raw {
            Raw::Float(number) => Some(*number),
            Raw::Integer(0) => Some(0.0),
            Raw::Integer(1) => Some(1.0),
            Raw::Word(word) => word.to_str().and_then(|word| word.parse().ok()),
            _ => None,
        };
        let share = share.filter(|share| (0.0..=1.0).contains(share));
        self.0.put(config, share.ok_or(InvalidValue)?);
        Ok(())
    }

    fn value(&self, config: &Config) -> Value {
        Value::Ratio(*(self.0.get)(config))
    }
}

/// Value that is written as text.
pub(crate) struct Text<T>(pub(super) Field<T>);

impl<T: Textual> Kind for Text<T> {
    fn expects(&self) -> String {
        T::EXPECTS.to_owned()
    }

    fn unit(&self) -> Option<&'static str> {
        None
    }

    fn placeholder(&self) -> &'static str {
        T::PLACEHOLDER
    }

    fn may_be_shown(&self) -> bool {
        T::MAY_BE_SHOWN
    }

    fn set(&self, config: &mut Config, raw: &Raw<'_>) -> Result<(), InvalidValue> {
        let value = T::read(text_of(raw)?).ok_or(InvalidValue)?;
        self.0.put(config, value);
        Ok(())
    }

    fn value(&self, config: &Config) -> Value {
        let text = (self.0.get)(config).write();
        text.map_or(Value::None, Value::Text)
    }
}

/// List of values that are written as text; separated by commas in a variable or a flag.
pub(crate) struct List<T>(pub(super) Field<Vec<T>>);

impl<T: Textual> Kind for List<T> {
    fn expects(&self) -> String {
        format!("a list, each item {}", T::EXPECTS)
    }

    fn unit(&self) -> Option<&'static str> {
        None
    }

    fn placeholder(&self) -> &'static str {
        "LIST"
    }

    fn may_be_shown(&self) -> bool {
        T::MAY_BE_SHOWN
    }

    fn set(&self, config: &mut Config, raw: &Raw<'_>) -> Result<(), InvalidValue> {
        let items: Option<Vec<T>> = match raw {
            Raw::Word(word) if word.is_empty() => Some(Vec::new()),
            Raw::Word(word) => {
                let items = word.to_str().ok_or(InvalidValue)?.split(',');
                items.map(|item| T::read(item.trim().as_ref())).collect()
            }
            Raw::List(items) => items
                .iter()
                .map(|item| T::read(text_of(item).ok()?))
                .collect(),
            _ => None,
        };
        self.0.put(config, items.ok_or(InvalidValue)?);
        Ok(())
    }

    fn value(&self, config: &Config) -> Value {
        let items = (self.0.get)(config).iter();
        Value::List(items.filter_map(Textual::write).collect())
    }
}

/// Named value that is written as text.
pub(crate) trait Named: Sized {
    /// Description of the accepted names and values.
    const EXPECTS: &'static str;

    /// Parses a name and its value; `None` if one is invalid.
    fn read(name: &str, value: &str) -> Option<Self>;

    /// Returns the name and the value.
    fn write(&self) -> (String, String);
}

/// Table of named values; `NAME=VALUE`, separated by semicolons, in a variable or a flag.
pub(crate) struct Map<T>(pub(super) Field<Vec<T>>);

impl<T: Named> Kind for Map<T> {
    fn expects(&self) -> String {
        T::EXPECTS.to_owned()
    }

    fn unit(&self) -> Option<&'static str> {
        None
    }

    fn placeholder(&self) -> &'static str {
        "TABLE"
    }

    fn may_be_shown(&self) -> bool {
        false
    }

    fn set(&self, config: &mut Config, raw: &Raw<'_>) -> Result<(), InvalidValue> {
        let items: Option<Vec<T>> = match raw {
            Raw::Word(word) => {
                let items = word.to_str().ok_or(InvalidValue)?.split(';');
                let items = items.map(str::trim).filter(|item| !item.is_empty());
                let read = |item: &str| {
                    let (name, value) = item.split_once('=')?;
                    T::read(name.trim(), value.trim())
                };
                items.map(read).collect()
            }
            Raw::Table(items) => items
                .iter()
                .map(|(name, value)| T::read(name, text_of(value).ok()?.to_str()?))
                .collect(),
            _ => None,
        };
        let mut items = items.ok_or(InvalidValue)?;
        items.sort_by_key(|item| item.write().0);
        let is_repeated = |pair: &[T]| pair[0].write().0 == pair[1].write().0;
        if items.windows(2).any(is_repeated) {
            return Err(InvalidValue);
        }
        self.0.put(config, items);
        Ok(())
    }

    fn value(&self, config: &Config) -> Value {
        Value::Map((self.0.get)(config).iter().map(Named::write).collect())
    }
}

fn text_of<'r>(raw: &'r Raw<'_>) -> Result<&'r OsStr, InvalidValue> {
    match raw {
        Raw::Word(word) => Ok(word),
        Raw::Text(text) => Ok(OsStr::new(&**text)),
        _ => Err(InvalidValue),
    }
}
