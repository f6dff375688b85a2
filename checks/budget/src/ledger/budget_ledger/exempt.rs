//! Exemptions: runs that are never held.

use super::BudgetLedger;
use crate::config::{ExemptNamespaces, PriorityClass};
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
        let labels = self.namespaces.known().and_then(|all| all.get(namespace));
        let mut unknown = false;
        for entry in exempt.classes.iter().filter(|entry| *entry.class == *class) {
            let applies = match &entry.namespaces {
                ExemptNamespaces::Named(names) => names.contains(namespace),
                ExemptNamespaces::Selected(selector) => {
                    // `NotIn` and `DoesNotExist` select namespaces without labels.
                    unknown |= labels.is_none();
                    labels.is_some_and(|labels| selector.selects(labels))
                }
            };
            if applies {
                return Ok(Some(Exemption::PriorityClass(class.name.to_string())));
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
}
