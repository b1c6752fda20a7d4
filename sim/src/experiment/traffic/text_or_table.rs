//! Values that a file writes as a text or as a table.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, MapAccess, Visitor};

/// Reads a value that may be written as a text or as a table `Table`.
pub(super) struct TextOrTable<Value, Table> {
    pub(super) expecting: &'static str,
    pub(super) text: fn(&str) -> Result<Value, String>,
    pub(super) table: fn(Table) -> Value,
    pub(super) marker: PhantomData<Table>,
}

impl<'de, Value, Table: DeserializeOwned> Visitor<'de> for TextOrTable<Value, Table> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        (self.text)(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        Table::deserialize(MapAccessDeserializer::new(map)).map(self.table)
    }
}
