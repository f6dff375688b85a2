//! A value that is computed from an object once.

use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

/// A value computed from an object on first use. A copy of the object computes it again.
#[derive(Default)]
pub(crate) struct Memo(OnceLock<Box<dyn Any + Send + Sync>>);

impl Memo {
    /// Returns the result of the first `make`. A memo holds values of one type only.
    pub(super) fn get<T: Clone + Send + Sync + 'static>(&self, make: impl Fn() -> T) -> T {
        let made = self.0.get_or_init(|| Box::new(make()));
        made.downcast_ref().cloned().unwrap_or_else(make)
    }
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Memos are equal, because their value follows from the rest of the object.
impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memo")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn it_is_made_once_for_each_copy() {
        let times = Cell::new(0);
        let make = || {
            times.set(times.get() + 1);
            times.get()
        };
        let memo = Memo::default();
        assert_eq!((memo.get(make), memo.get(make)), (1, 1));
        assert_eq!((memo.clone().get(make), memo.get(make)), (2, 1));
    }
}
