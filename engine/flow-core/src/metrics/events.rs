//! TensorBoard event files: TFRecords, each with a length, checksums and a protobuf `Event`. Only scalars are read, both
//! plain numbers (PyTorch) and tensors (TensorFlow).

use std::collections::BTreeMap;

use super::{
    Key, MetricRow,
    columns::{self, Columns, Name},
    readable_name,
};

/// The scalar with which some loggers report the epoch of a step.
const EPOCH: &str = "epoch";
/// Prefix of the tags that Keras logs per epoch; their steps are epochs.
const BY_EPOCH: &str = "epoch_";

/// A logged scalar.
#[derive(Clone, Debug, PartialEq)]
struct Scalar {
    tag: String,
    step: i64,
    value: f64,
}

/// Content of a record.
#[derive(Clone, Debug, PartialEq)]
enum RecordContent {
    Scalar(Scalar),
    /// The program restarted at this step: later logs, and those at this step, are void.
    Restart(i64),
}

/// The event files of a folder and its subfolders. Each folder is a separate run, and its name precedes its tags.
#[derive(Debug, Default)]
pub(super) struct Runs(BTreeMap<String, Vec<Scalar>>);

impl Runs {
    /// Reads the event file at `path` below the folder, after the files read before it. An incomplete last record is
    /// skipped. Returns the position of the first damaged record; nothing after it is read.
    pub(super) fn read(&mut self, path: &str, bytes: &[u8]) -> Option<u64> {
        let scalars = self.0.entry(run_of(path)).or_default();
        let mut take = |logged| match logged {
            RecordContent::Scalar(scalar) => scalars.push(scalar),
            RecordContent::Restart(step) => scalars.retain(|scalar| scalar.step < step),
        };
        records(bytes, &mut |record| event(record, &mut take)).err()
    }

    /// The numbers, in logged order.
    pub(super) fn rows(self, names: &mut Columns, rows: &mut Vec<MetricRow>) {
        let named = |(run, scalar): (&String, &Scalar)| {
            let tag = format!("{run}{}", scalar.tag);
            Name { id: tag.clone(), metric: tag.clone(), shown: tag }
        };
        let all = self.0.iter().flat_map(|(run, scalars)| scalars.iter().map(move |scalar| (run, scalar)));
        names.name(all.filter(|(_, scalar)| scalar.tag != EPOCH).map(named), false);
        for (run, scalars) in self.0 {
            let epochs =
                scalars.iter().filter(|scalar| scalar.tag == EPOCH).map(|scalar| (scalar.step, scalar.value)).collect();
            for scalar in scalars.iter().filter(|scalar| scalar.tag != EPOCH) {
                let field = columns::Field::Number(scalar.value, "");
                names.take(&format!("{run}{}", scalar.tag), field, key(scalar, &epochs), rows);
            }
        }
    }
}

/// Prefix of the tags of an event file.
fn run_of(path: &str) -> String {
    path.rsplit_once('/').map(|(run, _)| format!("{run}/")).unwrap_or_default()
}

fn key(Scalar { tag, step, .. }: &Scalar, epochs: &BTreeMap<i64, f64>) -> Key {
    match tag.starts_with(BY_EPOCH) {
        true => Key { epoch: Some(*step as f64), step: None },
        false => Key { epoch: epochs.get(step).copied().filter(|epoch| epoch.is_finite()), step: Some(*step as f64) },
    }
}

/// An event file that is read while it grows.
#[derive(Clone, Debug, Default)]
pub struct EventFile {
    run: String,
    /// The epoch of each step, if a scalar reports it.
    epochs: BTreeMap<i64, f64>,
    by_epoch: bool,
}

impl EventFile {
    /// The file at `path` below the declared folder. Reads nothing yet.
    pub fn new(path: &str) -> EventFile {
        EventFile { run: run_of(path), ..EventFile::default() }
    }

    /// Reads the scalars of the complete records at the start of `bytes`. Returns the length of these records; the next
    /// call starts after them.
    ///
    /// # Errors
    /// The position of a damaged record.
    pub fn take(&mut self, bytes: &[u8], rows: &mut Vec<MetricRow>) -> Result<usize, u64> {
        let mut scalars = Vec::new();
        let mut take = |logged| {
            if let RecordContent::Scalar(scalar) = logged {
                scalars.push(scalar);
            }
        };
        let read = records(bytes, &mut |record| event(record, &mut take));
        self.epochs
            .extend(scalars.iter().filter(|scalar| scalar.tag == EPOCH).map(|scalar| (scalar.step, scalar.value)));
        self.by_epoch |= scalars.iter().any(|scalar| scalar.tag.starts_with(BY_EPOCH));
        for scalar in scalars.iter().filter(|scalar| scalar.tag != EPOCH) {
            let name = readable_name(&format!("{}{}", self.run, scalar.tag));
            let row =
                |name| MetricRow { key: key(scalar, &self.epochs), name, value: scalar.value, unit: String::new() };
            rows.extend(name.map(row));
        }
        read
    }

    /// Whether its epochs are known: from a scalar, or as the steps of its tags.
    pub fn has_epochs(&self) -> bool {
        self.by_epoch || !self.epochs.is_empty()
    }
}

/// Passes on each complete record. Returns their length, or where one is damaged.
fn records(bytes: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<usize, u64> {
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_at_checked(12) {
        let at = bytes.len() - rest.len();
        let (length, sum) = head.split_at(8);
        if masked(length) != number(sum) {
            return Err(at as u64);
        }
        let length = usize::try_from(number(length)).unwrap_or(usize::MAX);
        let record = behind.split_at_checked(length);
        let Some((record, (sum, behind))) = record.and_then(|(r, behind)| Some((r, behind.split_at_checked(4)?)))
        else {
            return Ok(at);
        };
        if masked(record) != number(sum) {
            return Err(at as u64);
        }
        take(record);
        rest = behind;
    }
    Ok(bytes.len() - rest.len())
}

fn number(little_endian: &[u8]) -> u64 {
    little_endian.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The checksum of a record: CRC-32C, masked because the data may itself contain such checksums.
fn masked(bytes: &[u8]) -> u64 {
    let crc = !bytes.iter().fold(!0u32, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8));
    u64::from(crc.rotate_right(15).wrapping_add(0xa282_ead8))
}

static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let (mut crc, mut bit) = (n as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

/// A field's value in a protobuf message.
#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Fixed(&'a [u8]),
    Bytes(&'a [u8]),
}

/// The fields of a message in order, up to the first malformed one.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        let key = varint(&mut rest)?;
        let field = match key & 7 {
            0 => Field::Number(varint(&mut rest)?),
            1 => Field::Fixed(take(&mut rest, 8)?),
            2 => {
                let length = varint(&mut rest)?;
                Field::Bytes(take(&mut rest, usize::try_from(length).ok()?)?)
            }
            5 => Field::Fixed(take(&mut rest, 4)?),
            _ => return None,
        };
        Some((key >> 3, field))
    })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Value of a session log's `status` when a program starts.
const START: u64 = 1;

/// `Event { step = 2, summary = 5, session_log = 7 { status = 1 } }`, `Summary { value = 1 }`,
/// `Value { tag = 1, simple_value = 2, tensor = 8, metadata = 9 }`.
fn event(record: &[u8], take: &mut dyn FnMut(RecordContent)) {
    let (mut step, mut summary, mut restart) = (0, None, false);
    for field in fields(record) {
        match field {
            (2, Field::Number(n)) => step = n as i64,
            (5, Field::Bytes(bytes)) => summary = Some(bytes),
            (7, Field::Bytes(log)) => restart = fields(log).any(|field| matches!(field, (1, Field::Number(START)))),
            _ => {}
        }
    }
    if restart {
        take(RecordContent::Restart(step));
    }
    for field in fields(summary.unwrap_or_default()) {
        let (1, Field::Bytes(logged)) = field else { continue };
        let (mut tag, mut value, mut foreign) = (None, None, false);
        for field in fields(logged) {
            match field {
                (1, Field::Bytes(text)) => tag = Some(String::from_utf8_lossy(text).into_owned()),
                (2, Field::Fixed(bytes)) => value = float(bytes),
                (8, Field::Bytes(tensor)) => value = scalar_of(tensor),
                (9, Field::Bytes(metadata)) => foreign = plugin(metadata).is_some_and(|name| name != b"scalars"),
                _ => {}
            }
        }
        if let (Some(tag), Some(value), false) = (tag, value, foreign) {
            take(RecordContent::Scalar(Scalar { tag, step, value }));
        }
    }
}

/// `SummaryMetadata { plugin_data = 1 { plugin_name = 1 } }`: the TensorBoard plugin that shows it.
fn plugin(metadata: &[u8]) -> Option<&[u8]> {
    let first = |message| {
        fields(message).find_map(|field| match field {
            (1, Field::Bytes(bytes)) => Some(bytes),
            _ => None,
        })
    };
    first(first(metadata)?)
}

/// The number in a one-element tensor: `TensorProto { dtype = 1, tensor_content = 4, float_val = 5, double_val = 6,
/// int_val = 7, int64_val = 10 }`.
fn scalar_of(tensor: &[u8]) -> Option<f64> {
    let (mut kind, mut content, mut listed) = (0, None, None);
    for field in fields(tensor) {
        match field {
            (1, Field::Number(n)) => kind = n,
            (4, Field::Bytes(bytes)) => content = Some(bytes),
            (5 | 6, Field::Bytes(bytes) | Field::Fixed(bytes)) => listed = float(bytes),
            (7 | 10, Field::Number(n)) => listed = Some(n as i64 as f64),
            (7 | 10, Field::Bytes(mut packed)) => {
                listed = varint(&mut packed).filter(|_| packed.is_empty()).map(|n| n as i64 as f64);
            }
            _ => {}
        }
    }
    let Some(content) = content else { return listed };
    match (kind, content.len()) {
        (1, 4) | (2, 8) => float(content),
        (3, 4) => Some(f64::from(number(content) as i32)),
        (9, 8) => Some(number(content) as i64 as f64),
        _ => None,
    }
}

/// A four-byte float in its shortest decimal form: 0.1, not the exact value of the nearest float.
fn float(bytes: &[u8]) -> Option<f64> {
    match bytes.len() {
        4 => f32::from_bits(number(bytes) as u32).to_string().parse().ok(),
        8 => Some(f64::from_bits(number(bytes))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::shown, *};

    /// A field of bytes.
    fn bytes(field: u8, content: &[u8]) -> Vec<u8> {
        [&[field << 3 | 2, content.len() as u8][..], content].concat()
    }

    fn logged(step: u8, value: &[u8]) -> Vec<u8> {
        framed(&[&[2 << 3, step][..], &bytes(5, &bytes(1, value))].concat())
    }

    fn framed(event: &[u8]) -> Vec<u8> {
        let length = (event.len() as u64).to_le_bytes();
        let sum = |of: &[u8]| (masked(of) as u32).to_le_bytes();
        [&length[..], &sum(&length), event, &sum(event)].concat()
    }

    fn simple(step: u8, tag: &str, value: f32) -> Vec<u8> {
        logged(step, &[bytes(1, tag.as_bytes()), vec![2 << 3 | 5], value.to_le_bytes().to_vec()].concat())
    }

    fn tensor(tag: &str, tensor: &[u8], plugin: &str) -> Vec<u8> {
        let metadata = bytes(9, &bytes(1, &bytes(1, plugin.as_bytes())));
        logged(1, &[bytes(1, tag.as_bytes()), bytes(8, tensor), metadata].concat())
    }

    fn numbers(path: &str, content: &[u8]) -> (Vec<String>, Option<u64>) {
        let (mut runs, mut rows) = (Runs::default(), Vec::new());
        let damaged = runs.read(path, content);
        runs.rows(&mut Columns::default(), &mut rows);
        (shown(rows), damaged)
    }

    #[test]
    fn the_checksum_is_that_of_the_format() {
        // The length 24 of a first record, as written by TensorFlow and PyTorch.
        assert_eq!(number(&[0xa3, 0x7f, 0x4b, 0x22]), masked(&24u64.to_le_bytes()));
    }

    #[test]
    fn scalars_are_read_in_every_form() {
        let floats = [&[1 << 3, 1][..], &bytes(4, &0.25f32.to_le_bytes())].concat();
        let listed = [&[1 << 3, 1][..], &bytes(5, &0.5f32.to_le_bytes())].concat();
        let whole = [&[1 << 3, 9][..], &[10 << 3, 7]].concat();
        let content = [
            simple(1, "Loss/train", 0.1),
            simple(2, "Loss/train", f32::INFINITY),
            tensor("acc", &floats, "scalars"),
            tensor("lr", &listed, "scalars"),
            tensor("images", &whole, "scalars"),
            tensor("weights", &floats, "histograms"),
        ]
        .concat();
        let expected = ["1@loss_train=0.1", "2@loss_train=inf", "1@acc=0.25", "1@lr=0.5", "1@images=7"];
        assert_eq!(numbers("events.out.tfevents.1", &content), (expected.map(str::to_owned).to_vec(), None));
    }

    #[test]
    fn a_scalar_can_tell_the_epoch_and_a_folder_is_a_run() {
        let content = [simple(49, "loss", 2.0), simple(49, "epoch", 3.0), simple(60, "loss", 1.0)].concat();
        let rows = numbers("version_0/val/events.out.tfevents.1", &content).0;
        assert_eq!(rows, ["3:49@version_0_val_loss=2", "60@version_0_val_loss=1"]);
    }

    /// The record of a session that starts at a step.
    fn start(step: u8) -> Vec<u8> {
        framed(&[&[2 << 3, step][..], &bytes(7, &[1 << 3, 1])].concat())
    }

    #[test]
    fn what_a_restarted_program_logs_again_replaces_what_it_logged_before() {
        let first = [simple(1, "loss", 3.0), simple(2, "loss", 2.0), simple(3, "loss", 9.0)].concat();
        let again = [start(3), simple(3, "loss", 1.0)].concat();
        let mut runs = Runs::default();
        for (path, content) in [("val/e.1", &simple(3, "loss", 7.0)), ("e.1", &first), ("e.2", &again)] {
            assert_eq!(runs.read(path, content), None);
        }
        let mut rows = Vec::new();
        runs.rows(&mut Columns::default(), &mut rows);
        assert_eq!(shown(rows), ["1@loss=3", "2@loss=2", "3@loss=1", "3@val_loss=7"]);
    }

    #[test]
    fn no_two_tags_are_one_metric() {
        let content = [simple(1, "Loss/val", 2.0), simple(1, "loss_val", 1.0)].concat();
        let (mut runs, mut columns, mut rows) = (Runs::default(), Columns::default(), Vec::new());
        assert_eq!(runs.read("e", &content), None);
        runs.rows(&mut columns, &mut rows);
        assert_eq!(shown(rows), ["1@loss_val_2=2", "1@loss_val=1"]);
        assert_eq!(
            columns.remarks("logs"),
            ["names in `logs` become metrics with other names: `Loss/val` as `loss_val_2`"]
        );
    }

    #[test]
    fn steps_of_what_keras_logs_by_epoch_are_epochs() {
        let content = [simple(0, "epoch_loss", 2.0), simple(64, "evaluation_loss_vs_iterations", 1.0)].concat();
        assert_eq!(
            numbers("train/e", &content).0,
            ["0:train_epoch_loss=2", "64@train_evaluation_loss_vs_iterations=1"]
        );
    }

    #[test]
    fn what_is_cut_or_damaged_ends_the_reading() {
        let (first, second) = (simple(1, "loss", 2.0), simple(2, "loss", 1.0));
        let both = [&first[..], &second].concat();
        for cut in first.len()..both.len() {
            assert_eq!(numbers("e", &both[..cut]), (vec!["1@loss=2".to_owned()], None), "{cut}");
        }
        for at in 0..both.len() {
            let mut spoilt = both.clone();
            spoilt[at] ^= 0x10;
            let (rows, damaged) = numbers("e", &spoilt);
            let within = if at < first.len() { 0 } else { first.len() as u64 };
            assert_eq!((rows.len() as u64, damaged), (within.min(1), Some(within)), "{at}");
        }
    }

    #[test]
    fn a_file_that_is_being_written_is_read_where_the_last_reading_ended() {
        let content = [simple(1, "loss", 2.0), simple(2, "loss", 1.0), simple(3, "loss", 0.5)].concat();
        let (mut file, mut rows, mut from) = (EventFile::new("val/e"), Vec::new(), 0);
        for to in 0..=content.len() {
            from += file.take(&content[from..to], &mut rows).unwrap();
        }
        assert_eq!(
            (from, shown(rows)),
            (content.len(), ["1@val_loss=2", "2@val_loss=1", "3@val_loss=0.5"].map(str::to_owned).to_vec())
        );
    }

    proptest::proptest! {
        #[test]
        fn whatever_it_holds_nothing_panics(content in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = numbers("e", &content);
            event(&content, &mut |_| {});
            scalar_of(&content);
        }
    }
}
