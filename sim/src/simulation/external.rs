//! Services outside the cluster, which outlive the processes of a check.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The services, one of each type.
#[derive(Clone, Default)]
pub(super) struct ExternalServices(Arc<Mutex<Services>>);

type Services = BTreeMap<TypeId, Box<dyn Any + Send + Sync>>;

impl fmt::Debug for ExternalServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outside")
    }
}

impl ExternalServices {
    pub(super) fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        let services = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        services
            .get(&TypeId::of::<T>())?
            .downcast_ref::<T>()
            .cloned()
    }

    pub(super) fn get_or<T: Clone + Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> T {
        self.get().unwrap_or_else(|| {
            let made = make();
            let mut services = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            services.insert(TypeId::of::<T>(), Box::new(made.clone()));
            made
        })
    }
}
