//! Whole percentages.

/// `part` of `whole`, rounded down; none when `whole` is 0.
pub(crate) fn of(part: u64, whole: u64) -> Option<u8> {
    let percent = (u128::from(part) * 100).checked_div(u128::from(whole))?;
    u8::try_from(percent.min(100)).ok()
}
