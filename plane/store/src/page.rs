//! Paging.

/// Which part of a list is wanted, newest or oldest first as the verb says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<C> {
    /// Entries after this one; none starts at the beginning.
    pub after: Option<C>,
    /// At most this many.
    pub size: u32,
}
