//! Lenient deserialization of agent output: a field of the wrong type counts as absent, so no line
//! is lost to it.
//!
//! All types borrow from the line. serde's `Option<Cow<str>>` does not, which is why these types
//! have their own visitors.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A string, a number or a boolean; `None` for anything else.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Scalar<'a> {
    /// Absent, null, or of an unsupported type.
    #[default]
    None,
    /// A string.
    Text(Cow<'a, str>),
    /// A non-negative integer.
    Count(u64),
    /// Any other number.
    Amount(f64),
    /// A boolean.
    Flag(bool),
}

impl Scalar<'_> {
    /// Returns the string, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// Returns the string as an owned value, if it is one.
    pub fn owned(&self) -> Option<String> {
        self.text().map(str::to_owned)
    }

    /// Returns the string, or an empty one.
    pub fn or_empty(&self) -> &str {
        self.text().unwrap_or_default()
    }

    /// Returns the integer, if it is one.
    pub fn count(&self) -> Option<u64> {
        if let Self::Count(count) = self {
            Some(*count)
        } else {
            None
        }
    }

    /// Returns the number, if it is one.
    pub fn amount(&self) -> Option<f64> {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "costs and durations are far below 2^53"
            )]
            Self::Count(count) => Some(*count as f64),
            Self::Amount(amount) => Some(*amount),
            _ => None,
        }
    }

    /// Returns true if the value is `true`.
    pub fn is_true(&self) -> bool {
        *self == Self::Flag(true)
    }

    /// Returns true if the value is `false`, and not merely absent.
    pub fn is_false(&self) -> bool {
        *self == Self::Flag(false)
    }
}

/// An object, or a string in place of one; `None` for anything else.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Node<'a, T> {
    /// Absent, null, or of an unsupported type.
    #[default]
    None,
    /// A string.
    Text(Cow<'a, str>),
    /// An object.
    Map(T),
}

impl<T> Node<'_, T> {
    /// Returns the object, if it is one.
    pub fn map(&self) -> Option<&T> {
        if let Self::Map(map) = self {
            Some(map)
        } else {
            None
        }
    }

    /// Returns the string, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }
}

/// An object whose fields are all optional; an empty one for anything else.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object<T>(pub T);

impl<T> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// An object that most lines do not have, and that takes little room there; none for anything else.
#[derive(Debug, Clone, PartialEq)]
pub struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Rare<T> {
    /// Returns the object, if there is one.
    pub fn map(&self) -> Option<&T> {
        self.0.as_deref()
    }
}

/// A list of objects, without its other items; empty for anything else.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects<T>(Vec<T>);

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for Objects<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// A list; empty for anything else.
#[derive(Debug, Clone, PartialEq)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A string or a list of blocks; `None` for anything else.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Content<'a, T> {
    /// Absent, null, or of an unsupported type.
    #[default]
    None,
    /// A string.
    Text(Cow<'a, str>),
    /// A list.
    Blocks(Vec<T>),
}

/// An object whose keys are data, in the order of the line; `None` for anything else.
#[derive(Debug, Clone, PartialEq)]
pub struct Table<'a, T>(pub Option<Vec<(Cow<'a, str>, T)>>);

impl Table<'_, Scalar<'_>> {
    /// Returns every string under these keys. Duplicate keys are included, so that no policy rule
    /// misses one.
    pub fn all(&self, keys: &[&str]) -> Vec<String> {
        let wanted = self
            .0
            .iter()
            .flatten()
            .filter(|(key, _)| keys.contains(&&**key));
        wanted.filter_map(|(_, value)| value.owned()).collect()
    }

    /// Returns true if the key is present.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().flatten().any(|(name, _)| &**name == key)
    }
}

impl<T> Default for Table<'_, T> {
    fn default() -> Self {
        Self(None)
    }
}

/// Deserializes a raw value. Returns the default if it is absent or cannot be read.
#[must_use]
pub fn parse<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// Conversion from each kind of JSON value; kinds that a type does not override yield its default.
trait FromJson<'de>: Default {
    fn string(_: Cow<'de, str>) -> Self {
        Self::default()
    }
    fn count(_: u64) -> Self {
        Self::default()
    }
    fn amount(_: f64) -> Self {
        Self::default()
    }
    fn flag(_: bool) -> Self {
        Self::default()
    }
    fn seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
    fn map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// The visitor shared by all these types.
struct LenientVisitor<T>(PhantomData<T>);

impl<'de, T: FromJson<'de>> Visitor<'de> for LenientVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_borrowed_str<E: Error>(self, v: &'de str) -> Result<T, E> {
        Ok(T::string(Cow::Borrowed(v)))
    }
    fn visit_str<E: Error>(self, v: &str) -> Result<T, E> {
        Ok(T::string(Cow::Owned(v.to_owned())))
    }
    fn visit_u64<E: Error>(self, v: u64) -> Result<T, E> {
        Ok(T::count(v))
    }
    fn visit_i64<E: Error>(self, v: i64) -> Result<T, E> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "only negative numbers get here, and none of them has to be exact"
        )]
        let amount = v as f64;
        Ok(T::amount(amount))
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<T, E> {
        Ok(T::amount(v))
    }
    fn visit_bool<E: Error>(self, v: bool) -> Result<T, E> {
        Ok(T::flag(v))
    }
    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        T::seq(seq)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::map(map)
    }
}

impl<'de: 'a, 'a> FromJson<'de> for Scalar<'a> {
    fn string(text: Cow<'de, str>) -> Self {
        Self::Text(text)
    }
    fn count(count: u64) -> Self {
        Self::Count(count)
    }
    fn amount(amount: f64) -> Self {
        Self::Amount(amount)
    }
    fn flag(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> FromJson<'de> for Node<'a, T>
where
    Self: Default,
{
    fn string(text: Cow<'de, str>) -> Self {
        Self::Text(text)
    }
    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Self::Map)
    }
}

impl<'de, T: Deserialize<'de> + Default> FromJson<'de> for Object<T> {
    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Self)
    }
}

impl<'de, T: Deserialize<'de>> FromJson<'de> for Rare<T> {
    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        let object = T::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Self(Some(Box::new(object))))
    }
}

impl<'de, T: Deserialize<'de>> FromJson<'de> for Objects<T> {
    fn seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut objects = Vec::new();
        while let Some(item) = seq.next_element::<Node<'de, T>>()? {
            if let Node::Map(object) = item {
                objects.push(object);
            }
        }
        Ok(Self(objects))
    }
}

impl<'de, T: Deserialize<'de>> FromJson<'de> for List<T> {
    fn seq<A: SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Self)
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> FromJson<'de> for Content<'a, T>
where
    Self: Default,
{
    fn string(text: Cow<'de, str>) -> Self {
        Self::Text(text)
    }
    fn seq<A: SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Self::Blocks)
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> FromJson<'de> for Table<'a, T> {
    fn map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut rows = Vec::new();
        while let Some((Scalar::Text(key), value)) = map.next_entry::<Scalar<'a>, T>()? {
            rows.push((key, value));
        }
        Ok(Self(Some(rows)))
    }
}

/// Declares structs whose fields are all optional and borrow from the line. A field without a type
/// is a [`Scalar`].
#[doc(hidden)]
#[macro_export]
macro_rules! __wire {
    (@type) => { $crate::lenient::Scalar<'a> };
    (@type $type:ty) => { $type };
    ($(
        $(#[$doc:meta])* struct $name:ident { $($(#[$attr:meta])* $field:ident $(: $type:ty)?,)* }
    )*) => {$(
        #[derive(Debug, Clone, Default, serde::Deserialize)]
        $(#[$doc])*
        #[serde(bound(deserialize = "'de: 'a"))]
        pub(super) struct $name<'a> {
            // For each field: a default of the whole struct would be built for every line.
            $($(#[$attr])* #[serde(default)] pub(super) $field: $crate::__wire!(@type $($type)?),)*
        }
    )*};
}

pub use __wire as wire;

/// Implements `Deserialize` by way of [`FromJson`].
macro_rules! impl_lenient {
    ($($name:ident<$($p:ident),*>,)*) => {$(
        impl<'de: 'a, 'a $(, $p: Deserialize<'de>)*> Deserialize<'de> for $name<'a $(, $p)*>
        where Self: Default {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(LenientVisitor(PhantomData))
            }
        }
    )*};
}

impl_lenient! { Scalar<>, Node<T>, Content<T>, Table<T>, }

/// The same for types that do not borrow themselves.
macro_rules! impl_lenient_owner {
    ($($name:ident: $bound:path,)*) => {$(
        impl<'de, T: Deserialize<'de> + $bound> Deserialize<'de> for $name<T> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(LenientVisitor(PhantomData))
            }
        }
    )*};
}

impl_lenient_owner! { List: Sized, Objects: Sized, Object: Default, Rare: Sized, }

#[cfg(test)]
mod tests;
