//! Fingerprints decide which result may be reused for an instance. Knows nothing of the store, of files or of placement.
//!
//! [`walk`] turns an instance into named [`Part`]s. The hash of the parts is the fingerprint. The difference between the
//! parts of two moments gives the reasons (see [`crate::why`]). There is no second walk that could disagree with the
//! first.
//!
//! # What counts
//!
//! | in | out |
//! | --- | --- |
//! | the resolved command and its declared shell or `#!` interpreter, unless it starts directly; or the resolved `with:` leaf by leaf (an artifact counts as its digest) | the step's name, its place in the file, comments, the order of keys |
//! | the plugin's digest and protocol version | the plugin's location, the version that it prints |
//! | for a built-in: its version, and every result, title and setting that it sees | how often and in which run a result was reused |
//! | digests of the artifacts that it reads, and their file names, or their places under `inputs:` | the name and the axes of the step that made them |
//! | declared `inputs:`: the place in the work folder and the content (names and sizes with `by: listing`); for a folder named by a parameter, the content alone | modification times, absolute paths, host name, time, `copy:` of an input |
//! | declared `outputs:`, and where its `metrics:` are read | `record`, `retries`, `timeout`, `resume`, `priority`, `when` |
//! | values of `env:` | `secrets:` |
//! | a declared environment: its packages, interpreter and platform, or the content of its image | its name, its folder, the bytes of its lock file |
//! | the seed, and the repetition if the step does not read its seed; the values of axes that the step does not read, because they only distinguish repetitions | the number of repetitions |
//! | a **measured** step: GPU model and count, CPU model, `cpus`, and mode (alone, co-run on own or shared GPUs, plain) | actual circumstances, which of two equal GPUs, the driver's version |
//! | that its GPUs are only declared, not present | |
//! | a co-run group: the group, and the ordinal among equal members | the names of the group and of its members |
//!
//! Without `metrics:` this is the fingerprint of the *attempt*. All readings of its output share it, and one reading can
//! be made from another (`Parts::without_metrics`, `plan::decide`).
//!
//! # Encoding, version 1
//!
//! All integers below are unsigned, 64 bits, little-endian. A value is a tag byte and its data:
//!
//! | value | tag | then |
//! | --- | --- | --- |
//! | null, false, true | `n` `f` `t` | nothing |
//! | integer | `i` | length, decimal digits |
//! | other number | `d` | the IEEE 754 double, little-endian; −0 counts as 0 |
//! | text up to 1,024 bytes | `s` | length, UTF-8 |
//! | longer text | `S` | length, BLAKE3 of the UTF-8 (32 bytes) |
//! | empty list, empty map | `l` `m` | nothing: other lists and maps are walked leaf by leaf |
//! | digest | `h` | 32 bytes |
//! | content of an input, listing of an input | `c` `q` | 32 bytes |
//! | many parts of one kind | `k` | count, BLAKE3 of those parts' encodings (32 bytes) |
//!
//! A part is its kind's name as text, its name as text, and its value. Of an artifact below `in/` only the file name is
//! encoded. A leaf's name is its path, `sections[0].table`; a key with characters outside `[A-Za-z0-9_-]` is written
//! `["as JSON"]`.
//!
//! - base = BLAKE3("flow fingerprint 1\n" ‖ count ‖ parts), in the order of [`PartKind`], within a kind by name,
//!   artifacts by digest, then by name;
//! - an instance outside of co-run groups: fingerprint = base;
//! - group = BLAKE3("flow group 1\n" ‖ count ‖ the members' bases, sorted);
//! - a member: fingerprint = BLAKE3("flow member 1\n" ‖ base ‖ group ‖ ordinal), where the ordinal is its index among
//!   the members with the same base, by instance.
//!
//! Parts are stored for each instance, so they stay small: if they exceed 40 KiB, the largest kind becomes one "many"
//! part, until they fit.

mod encode;
mod part;
mod walk;

pub use part::{Group, Part, PartKind, PartValue, Parts, RUNNER};
pub use walk::{Provider, Subject, Tree, walk};

#[cfg(test)]
pub(crate) mod tests;
