//! Exemptions: runs that are never held.

use super::BudgetLedger;
use crate::config::{ExemptClass, ExemptNamespaces, PriorityClass};
use crate::ledger::{Awaited, Exemption, HoldReason, Run};

#[expect(
    clippy::result_large_err,
    reason = "a reason is made once for each decision, and moved"
)]
impl BudgetLedger {
    /// Returns why `run` is never held; `None` if it can be.
    ///
    /// # Errors
    /// While the labels on which that depends are unknown.
    pub(in crate::ledger) fn exemption(&self, run: &Run) -> Result<Option<Exemption>, HoldReason> {
        self.exemption_in(&run.namespace, run.class.as_deref())
    }

    /// Returns the same for a run in `namespace` with `class`, by the current labels of the
    /// namespace.
    pub(super) fn exemption_in(
        &self,
        namespace: &str,
        class: Option<&PriorityClass>,
    ) -> Result<Option<Exemption>, HoldReason> {
        let exempt = &self.terms.exempt;
        if exempt.namespaces.contains(namespace) {
            return Ok(Some(Exemption::Namespace(namespace.to_owned())));
        }
        let Some(class) = class else { return Ok(None) };
        let mut unknown = false;
        for entry in exempt.classes.iter().filter(|entry| *entry.class == *class) {
            match self.selects(entry, namespace) {
                Some(true) => return Ok(Some(Exemption::PriorityClass(class.name.to_string()))),
                Some(false) => {}
                None => unknown = true,
            }
        }
        if unknown {
            return Err(HoldReason::ColdStart {
                awaits: Awaited::Namespaces,
                have: None,
                problem: self.namespaces.problem().map(str::to_owned),
            });
        }
        Ok(None)
    }

    /// Returns whether a priority class is exempt in `namespace`; `None` while its labels are
    /// unknown.
    pub(crate) fn exempts_class_in(&self, namespace: &str) -> Option<bool> {
        let classes = self.terms.exempt.classes.iter();
        let selected: Vec<_> = classes
            .map(|entry| self.selects(entry, namespace))
            .collect();
        if selected.contains(&Some(true)) {
            Some(true)
        } else if selected.contains(&None) {
            None
        } else {
            Some(false)
        }
    }

    /// Returns whether `entry` selects `namespace`; `None` while its labels are unknown.
    fn selects(&self, entry: &ExemptClass, namespace: &str) -> Option<bool> {
        match &entry.namespaces {
            ExemptNamespaces::Named(names) => Some(names.contains(namespace)),
            // `NotIn` and `DoesNotExist` select namespaces without labels.
            ExemptNamespaces::Selected(selector) => {
                let labels = self.namespaces.known()?.get(namespace)?;
                Some(selector.selects(labels))
            }
        }
    }
}
