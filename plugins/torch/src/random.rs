//! Seeds of the plugin's own random choices. Each has a seed of its own, so that none depends on the number of earlier
//! choices.

/// The split into training and validation.
pub(crate) const SPLIT: u64 = 1;
/// The order of the samples in an epoch.
pub(crate) const ORDER: u64 = 2;
/// Crop and flip of one sample in one epoch.
pub(crate) const AUGMENT: u64 = 3;
/// Dropout in an epoch.
pub(crate) const DROPOUT: u64 = 4;

/// One seed from several numbers.
pub(crate) fn seed<const N: usize>(parts: [u64; N]) -> u64 {
    parts.into_iter().fold(0, |state, part| mix(state ^ part))
}

/// The finaliser of SplitMix64: neighbours become strangers.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
