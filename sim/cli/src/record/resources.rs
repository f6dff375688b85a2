//! Pseudonyms for the names of resources.
//!
//! Kueue tries the resources of a Workload in the order of a hash of their names (since 0.19), and
//! sorts messages with them as texts. The pseudonyms have the same order in both.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use kueue_check_sim::kueue::resource_hash;

/// The resources that Kubernetes defines, in the order of their names, and those with the prefix
/// `hugepages-`. Each comes after the letter of its place in `LETTERS`.
const STANDARD: [&str; 5] = ["cpu", "ephemeral-storage", "hugepages-", "memory", "pods"];
/// The beginnings of pseudonyms before, between and after those.
const LETTERS: [char; 6] = ['a', 'd', 'f', 'k', 'n', 'z'];
/// The resources that Kubernetes defines, as far as their hashes matter.
const HASHED: [&str; 6] = [
    "cpu",
    "ephemeral-storage",
    "hugepages-1Gi",
    "hugepages-2Mi",
    "memory",
    "pods",
];
/// The number of pseudonyms of one letter.
const MOST: usize = 10_000;

/// Returns true if Kubernetes defines the resource.
pub(super) fn is_standard(name: &str) -> bool {
    name.starts_with("hugepages-") || name == "storage" || STANDARD.contains(&name)
}

/// Returns a pseudonym for each of these names, which come in order.
pub(super) fn pseudonyms<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut placed: Vec<(String, String)> =
        HASHED.map(|name| (name.to_owned(), name.to_owned())).into();
    let (mut last, mut number) = (0, 0);
    for name in names {
        let place = STANDARD.iter().filter(|other| **other < name).count();
        if place != last {
            (last, number) = (place, 0);
        }
        let candidate = |n: usize| format!("{}.example/resource-{n:04}", LETTERS[place]);
        let keeps = |new: &str| placed.iter().all(|(o, p)| order(name, o) == order(new, p));
        let mut free = number + 1..MOST;
        number = free.find(|n| keeps(&candidate(*n))).unwrap_or(number + 1);
        let new = candidate(number);
        placed.push((name.to_owned(), new));
    }
    placed.into_iter().skip(HASHED.len()).collect()
}

fn order(one: &str, other: &str) -> Ordering {
    resource_hash(one).cmp(&resource_hash(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_keep_their_order() {
        let names = [
            "acme.example/vault-gpu",
            "credits",
            "gpu.intel.com/i915",
            "ice.example/slots",
            "nvidia.com/gpu",
            "nvidia.com/mig-1g.5gb",
            "zebra.example/x",
        ];
        let found = pseudonyms(names.into_iter());
        let of = |name: &str| found.get(name).map_or(name, String::as_str).to_owned();
        let all: Vec<&str> = names.into_iter().chain(HASHED).collect();
        for one in &all {
            for other in &all {
                assert_eq!(
                    order(one, other),
                    order(&of(one), &of(other)),
                    "{one} {other}"
                );
                assert_eq!(one.cmp(other), of(one).cmp(&of(other)), "{one} {other}");
            }
        }
        for (name, new) in found {
            assert!(new.contains(".example/resource-"), "{name}: {new}");
        }
    }
}
