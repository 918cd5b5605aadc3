//! Apache Parquet: the columns of [`super::csv`], with types.
//!
//! Rows are collected in groups of a bounded number of values, which are written column by column.

use std::io::{self, Read, Write};
use std::sync::Arc;

use cyclometer_toolkit::core::window::WindowRow;
use cyclometer_toolkit::recording::RecordingHeader;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::{RecordedRows, RecordedValue, boundary, column_names, half_width, reason, value};
use crate::stream::{StreamError, Streamed};

/// The most values of a group of rows.
const MOST_VALUES: usize = 1 << 20;

/// Writes the file.
pub fn write<R: Read>(rows: &mut RecordedRows<R>, out: &mut (dyn Write + Send)) -> Streamed<()> {
    let mut columns = columns(rows.header());
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(out, schema(&columns)?, Arc::new(properties))?;
    let rows_of_group = (MOST_VALUES / columns.len()).max(1);
    let mut collected = 0;
    while let Some(row) = rows.next_row() {
        add(&mut columns, &row, rows.thread_name(&row), rows.header());
        collected += 1;
        if collected == rows_of_group {
            write_group(&mut writer, &mut columns)?;
            collected = 0;
        }
    }
    if collected > 0 {
        write_group(&mut writer, &mut columns)?;
    }
    writer.close()?;
    Ok(())
}

/// A column, with the values of the rows that were collected.
struct ParquetColumn {
    name: String,
    values: ColumnValues,
    /// For each row 1 if it has a value, else 0.
    levels: Vec<i16>,
}

enum ColumnValues {
    Unsigned(Vec<i64>),
    Real(Vec<f64>),
    Text(Vec<ByteArray>),
    Flag(Vec<bool>),
}

fn columns(header: &RecordingHeader) -> Vec<ParquetColumn> {
    let unsigned = || ColumnValues::Unsigned(Vec::new());
    let text = || ColumnValues::Text(Vec::new());
    let mut columns: Vec<(String, ColumnValues)> = Vec::new();
    let mut add = |name: &str, values| columns.push((name.to_owned(), values));
    for name in ["pid", "tid"] {
        add(name, unsigned());
    }
    add("thread", text());
    for name in ["cpu", "time_ns", "address"] {
        add(name, unsigned());
    }
    add("cause", text());
    for name in ["boundary", "enabled_ns", "running_ns", "switches", "migrations"] {
        add(name, unsigned());
    }
    add("throttled", ColumnValues::Flag(Vec::new()));
    add("lost_before", unsigned());
    for (name, event) in column_names(header).iter().zip(&header.events) {
        let values = || if event.scale == 1.0 { unsigned() } else { ColumnValues::Real(Vec::new()) };
        add(name, values());
        add(&format!("{name}.count"), text());
        add(&format!("{name}.half_width"), values());
        add(&format!("{name}.reason"), text());
    }
    let column = |(name, values)| ParquetColumn { name, values, levels: Vec::new() };
    columns.into_iter().map(column).collect()
}

fn schema(columns: &[ParquetColumn]) -> Streamed<Arc<Type>> {
    let mut fields = Vec::new();
    for column in columns {
        let (physical, logical) = match column.values {
            ColumnValues::Unsigned(_) => (PhysicalType::INT64, Some(LogicalType::integer(64, false))),
            ColumnValues::Real(_) => (PhysicalType::DOUBLE, None),
            ColumnValues::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnValues::Flag(_) => (PhysicalType::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_logical_type(logical)
            .with_repetition(Repetition::OPTIONAL);
        fields.push(Arc::new(field.build()?));
    }
    Ok(Arc::new(Type::group_type_builder("window").with_fields(fields).build()?))
}

/// A value of a row.
enum ParquetValue<'a> {
    Unsigned(u64),
    Value(RecordedValue),
    Text(&'a str),
    Flag(bool),
}

fn add(columns: &mut [ParquetColumn], row: &WindowRow, thread: Option<&str>, header: &RecordingHeader) {
    let number = |value: Option<u64>| value.map(ParquetValue::Unsigned);
    let cells = [
        number(row.thread.map(|thread| thread.pid.into())),
        number(row.thread.map(|thread| thread.tid.into())),
        thread.map(ParquetValue::Text),
        number(row.cpu.map(u64::from)),
        number(row.time_ns),
        number(row.address),
        Some(ParquetValue::Text(row.cause.word())),
        number(boundary(row).map(|index| index as u64)),
        number(row.enabled_ns),
        number(row.running_ns),
        number(row.flags.switches.map(u64::from)),
        number(row.flags.migrations.map(u64::from)),
        Some(ParquetValue::Flag(row.flags.throttled)),
        number(Some(row.flags.lost_before)),
    ];
    let (of_row, of_events) = columns.split_at_mut(cells.len());
    of_row.iter_mut().zip(cells).for_each(|(column, cell)| column.add(cell));
    let counts = row.counts.iter().zip(&header.events);
    for ((count, event), columns) in counts.zip(of_events.chunks_exact_mut(4)) {
        let reason = reason(count);
        let cells = [
            value(count, event).map(ParquetValue::Value),
            Some(ParquetValue::Text(count.verdict().word())),
            half_width(count, event).map(ParquetValue::Value),
            reason.as_deref().map(ParquetValue::Text),
        ];
        columns.iter_mut().zip(cells).for_each(|(column, cell)| column.add(cell));
    }
}

impl ParquetColumn {
    fn add(&mut self, cell: Option<ParquetValue<'_>>) {
        self.levels.push(cell.is_some().into());
        let Some(cell) = cell else { return };
        match (&mut self.values, cell) {
            // Parquet keeps unsigned numbers in the bits of signed ones.
            (
                ColumnValues::Unsigned(values),
                ParquetValue::Unsigned(number) | ParquetValue::Value(RecordedValue::Whole(number)),
            ) => values.push(number as i64),
            (ColumnValues::Real(values), ParquetValue::Value(RecordedValue::Real(number))) => {
                values.push(number)
            }
            (ColumnValues::Text(values), ParquetValue::Text(text)) => values.push(text.into()),
            (ColumnValues::Flag(values), ParquetValue::Flag(flag)) => values.push(flag),
            _ => unreachable!("cells are of the type of their column"),
        }
    }

    /// Writes the collected values and forgets them.
    fn write(&mut self, mut writer: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = Some(&self.levels[..]);
        match &mut self.values {
            ColumnValues::Unsigned(values) => {
                writer.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Real(values) => {
                writer.typed::<DoubleType>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Text(values) => {
                writer.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Flag(values) => {
                writer.typed::<BoolType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        self.levels.clear();
        writer.close()
    }
}

fn write_group(
    writer: &mut SerializedFileWriter<&mut (dyn Write + Send)>,
    columns: &mut [ParquetColumn],
) -> Streamed<()> {
    let mut group = writer.next_row_group()?;
    let mut columns = columns.iter_mut();
    while let (Some(column), Some(writer)) = (columns.next(), group.next_column()?) {
        column.write(writer)?;
    }
    group.close()?;
    Ok(())
}

impl From<ParquetError> for StreamError {
    fn from(error: ParquetError) -> StreamError {
        match error {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(error) => StreamError::Write(*error),
                Err(cause) => StreamError::Write(io::Error::other(cause)),
            },
            other => StreamError::Write(io::Error::other(other)),
        }
    }
}
