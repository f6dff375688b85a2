//! Names of created objects. They are the same as Kueue's, so a cluster can switch to this check
//! with requests in flight.

/// The longest name that is used unchanged, in bytes. Longer ones are truncated and made unique by
/// a hash, up to Kubernetes' limit of 253.
pub const NAME_LIMIT: usize = 247;

/// The number of hexadecimal digits of the hash in a truncated name.
const HASH_DIGITS: usize = 5;

/// Returns the name of the request of `workload` for the AdmissionCheck `check`, attempt `attempt`.
pub fn request_name(workload: &str, check: &str, attempt: u32) -> String {
    limited(&format!("{workload}-{check}-{attempt}"))
}

/// Returns the name of the PodTemplate of `pod_set` for the request `request`.
pub fn template_name(request: &str, pod_set: &str) -> String {
    limited(&format!("ppt-{request}-{pod_set}"))
}

/// Returns the attempt number in the name of a request of `workload` for `check`. Returns `None` if
/// the name is of another object, or was truncated.
///
/// Requests of this check have the number in an annotation; this is for those that Kueue created.
pub fn attempt_in_name(name: &str, workload: &str, check: &str) -> Option<u32> {
    let digits = name.strip_prefix(&limited(&format!("{workload}-{check}-")))?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(1))
}

/// Returns true if `name` is of a template of any request of `workload` for `check`. A name that
/// was truncated before the number gives no match.
///
/// With AdmissionChecks `gpu` and `gpu-1`, a template of the second may have a name like one of the
/// first. This is for templates without an annotation of their check.
pub fn is_template_of(name: &str, workload: &str, check: &str) -> bool {
    let Some(rest) = name.strip_prefix(&format!("ppt-{workload}-{check}-")) else {
        return false;
    };
    let pod_set = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    pod_set.len() < rest.len() && pod_set.starts_with('-')
}

/// Returns `name`, or its beginning and five digits of its SHA-1 if it is too long.
fn limited(name: &str) -> String {
    if name.len() <= NAME_LIMIT {
        return name.to_owned();
    }
    let hash = sha1_smol::Sha1::from(name).digest().to_string();
    let cut = name.floor_char_boundary(NAME_LIMIT);
    format!("{}-{}", &name[..cut], &hash[..HASH_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kueue() {
        assert_eq!(request_name("job-wl-7901c", "pr", 1), "job-wl-7901c-pr-1");
        assert_eq!(
            template_name("job-wl-7901c-pr-1", "main"),
            "ppt-job-wl-7901c-pr-1-main"
        );
    }

    #[test]
    fn a_name_of_more_than_247_bytes_is_cut_and_hashed() {
        let fits = request_name(&"w".repeat(242), "pr", 1);
        assert_eq!(fits, format!("{}-pr-1", "w".repeat(242)));
        let workload = "w".repeat(245);
        let first = request_name(&workload, "pr", 1);
        let second = request_name(&workload, "pr", 2);
        assert_eq!((first.len(), second.len()), (253, 253));
        assert_ne!(first, second, "the hash is of the whole name");
        assert!(first.starts_with(&format!("{workload}-p-")));
        // `sha1sum` of 248 times `a` begins like this.
        assert_eq!(
            limited(&"a".repeat(248)),
            format!("{}-d1d8b", "a".repeat(247))
        );
    }

    #[test]
    fn the_number_is_read_from_names_that_kueue_gave() {
        let cases = [
            ("wl-pr-1", Some(1)),
            ("wl-pr-17", Some(17)),
            ("wl-pr-99999999999", Some(1)),
            ("wl-pr-", None),
            ("wl-pr-1a", None),
            ("wl-pr2-1", None),
            ("other-pr-1", None),
        ];
        for (name, attempt) in cases {
            assert_eq!(attempt_in_name(name, "wl", "pr"), attempt, "{name}");
        }
        let long = "w".repeat(250);
        let cut = request_name(&long, "pr", 3);
        assert_eq!(
            attempt_in_name(&cut, &long, "pr"),
            None,
            "a cut name has no attempt"
        );
    }

    #[test]
    fn templates_of_a_check_are_distinguished_from_those_of_similar_names() {
        let long = "w".repeat(235);
        let cut_at_the_pod_set = template_name(&request_name(&long, "pr", 1), "workers");
        let cut_before_the_number = template_name(&request_name(&"w".repeat(250), "pr", 1), "main");
        let cases = [
            ("ppt-wl-pr-1-main", "wl", true),
            ("ppt-wl-pr-12-main", "wl", true),
            ("ppt-wl-pr-b-1-main", "wl", false),
            ("ppt-wl-pr-1b-2-main", "wl", false),
            ("ppt-wl-prb-1-main", "wl", false),
            ("ppt-wl-pr-1", "wl", false),
            ("ppt-wl-pr--main", "wl", false),
            ("wl-pr-1-main", "wl", false),
            (&*cut_at_the_pod_set, &*long, true),
            (&*cut_before_the_number, &*"w".repeat(250), false),
        ];
        for (name, workload, expected) in cases {
            assert_eq!(is_template_of(name, workload, "pr"), expected, "{name}");
        }
    }
}
