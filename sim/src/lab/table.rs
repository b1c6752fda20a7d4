//! Tables in Parquet, written so that the same rows give the same bytes.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// The values of a column.
pub(super) enum Column {
    Text(Vec<ByteArray>),
    Whole(Vec<i64>),
    Number(Vec<f64>),
    Switch(Vec<bool>),
}

/// Columns with their names, all equally long.
#[derive(Default)]
pub(super) struct Table(Vec<(String, Column)>);

impl Table {
    pub(super) fn column(&mut self, name: &str, column: Column) {
        self.0.push((name.to_owned(), column));
    }

    /// Adds the rows of a table with the same columns.
    pub(super) fn append(&mut self, more: Table) {
        if self.0.is_empty() {
            *self = more;
            return;
        }
        for ((_, column), (_, more)) in self.0.iter_mut().zip(more.0) {
            match (column, more) {
                (Column::Text(own), Column::Text(more)) => own.extend(more),
                (Column::Whole(own), Column::Whole(more)) => own.extend(more),
                (Column::Number(own), Column::Number(more)) => own.extend(more),
                (Column::Switch(own), Column::Switch(more)) => own.extend(more),
                _ => unreachable!("tables with the same columns have them of the same kinds"),
            }
        }
    }

    /// The names of its columns.
    pub(super) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Writes the table as one row group. It is not compressed except by dictionaries, which make
    /// most of the difference.
    pub(super) fn write(&self, file: impl Write + Send) -> Result<(), ParquetError> {
        let fields = self.0.iter().map(|(name, column)| column.field(name));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder("schema")
            .with_fields(fields)
            .build()?;
        let properties = WriterProperties::builder()
            .set_created_by("gallop-sim".to_owned())
            .build();
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
        let mut rows = writer.next_row_group()?;
        let mut columns = self.0.iter();
        while let (Some(mut out), Some((_, column))) = (rows.next_column()?, columns.next()) {
            match (out.untyped(), column) {
                (ColumnWriter::ByteArrayColumnWriter(out), Column::Text(values)) => {
                    out.write_batch(values, None, None)?;
                }
                (ColumnWriter::Int64ColumnWriter(out), Column::Whole(values)) => {
                    out.write_batch(values, None, None)?;
                }
                (ColumnWriter::DoubleColumnWriter(out), Column::Number(values)) => {
                    out.write_batch(values, None, None)?;
                }
                (ColumnWriter::BoolColumnWriter(out), Column::Switch(values)) => {
                    out.write_batch(values, None, None)?;
                }
                _ => return Err(ParquetError::General("a column of another type".to_owned())),
            }
            out.close()?;
        }
        rows.close()?;
        writer.close()?;
        Ok(())
    }
}

impl Column {
    fn field(&self, name: &str) -> Result<Arc<Type>, ParquetError> {
        let (physical, logical) = match self {
            Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Column::Whole(_) => (Physical::INT64, None),
            Column::Number(_) => (Physical::DOUBLE, None),
            Column::Switch(_) => (Physical::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(field))
    }
}
