//! The schedule of storms and of the kills in them. Pure.

use crate::random::Random;
use crate::scene::{BUDGET, PROVISIONING};

/// The minimum duration of a storm and the calm after it, in seconds.
const CYCLE: f64 = 240.0;

/// A period with faults and kills.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Storm {
    /// Its start, in seconds since the run began.
    pub(crate) from: f64,
    /// Its end. A calm of the same length follows.
    pub(crate) until: f64,
    /// The number of 1,000 requests that have a fault.
    pub(crate) rate: u32,
    /// The kills, with their times.
    pub(crate) disruptions: Vec<(f64, Disruption)>,
}

/// A kill or a stop of one target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Disruption {
    /// The leading replica of the check, by this signal.
    Leader(&'static str, &'static str),
    /// The replica that does not lead.
    Standby(&'static str),
    /// Both replicas at once.
    Both(&'static str),
    /// A pause of the leader in seconds: longer than its Lease.
    Freeze(&'static str, f64),
    /// A stop of the API server in seconds.
    ApiServer(f64),
    /// A stop of the source of figures in seconds.
    Source(f64),
}

impl Disruption {
    /// Returns its name in the counts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Leader(_, "KILL") => "leader SIGKILL",
            Self::Leader(..) => "leader SIGTERM",
            Self::Standby(_) => "standby SIGKILL",
            Self::Both(_) => "both SIGKILL",
            Self::Freeze(..) => "leader frozen",
            Self::ApiServer(_) => "API server restarted",
            Self::Source(_) => "source restarted",
        }
    }
}

/// Returns the storms of a run of `seconds` seconds. In its last third no program of a check is
/// killed, so that its memory can be measured. Everything else continues.
pub(crate) fn storms(seed: u64, seconds: f64) -> Vec<Storm> {
    let mut random = Random::new(seed, "kills");
    let mut count = 1;
    while f64::from(count + 1) * CYCLE <= seconds {
        count += 1;
    }
    let length = seconds / f64::from(count);
    let cycles = 0..count;
    cycles
        .map(|cycle| {
            let from = f64::from(cycle) * length;
            let until = from + length / 2.0;
            let kills = count == 1 || f64::from(cycle) < f64::from(count) * 2.0 / 3.0;
            let rate = [15, 40, 100][usize::try_from(random.below(3)).unwrap_or_default()];
            let mut disruptions = Vec::new();
            let mut at = from + random.between(2.0, 10.0);
            while at < until {
                let disruption = disruption(&mut random);
                let of_rest =
                    matches!(disruption, Disruption::ApiServer(_) | Disruption::Source(_));
                if kills || of_rest {
                    disruptions.push((at, disruption));
                }
                at += random.between(6.0, 18.0);
            }
            Storm {
                from,
                until,
                rate,
                disruptions,
            }
        })
        .collect()
}

fn disruption(random: &mut Random) -> Disruption {
    let check = if random.chance(500) {
        BUDGET
    } else {
        PROVISIONING
    };
    let frozen = random.between(12.0, 25.0);
    let (api_server, source) = (random.between(0.5, 8.0), random.between(3.0, 20.0));
    let all = [
        (4, Disruption::Leader(check, "KILL")),
        (3, Disruption::Leader(check, "TERM")),
        (1, Disruption::Standby(check)),
        (1, Disruption::Both(check)),
        (2, Disruption::Freeze(check, frozen)),
        (2, Disruption::ApiServer(api_server)),
        (3, Disruption::Source(source)),
    ];
    random.weighted(&all).unwrap_or(Disruption::Source(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_storms_and_calm_follows_each() {
        assert_eq!(storms(1, 1800.0), storms(1, 1800.0));
        assert_ne!(storms(1, 1800.0), storms(2, 1800.0));
        for (seconds, expected) in [(30.0, 1), (240.0, 1), (480.0, 2), (1800.0, 7)] {
            let all = storms(3, seconds);
            assert_eq!(all.len(), expected);
            for (number, storm) in all.iter().enumerate() {
                let next = all.get(number + 1).map_or(seconds, |next| next.from);
                let (storm_for, calm_for) = (storm.until - storm.from, next - storm.until);
                assert!((storm_for - calm_for).abs() < 1e-6, "{storm:?}");
            }
        }
    }

    #[test]
    fn every_disruption_is_drawn_and_the_last_third_kills_no_check() {
        let all: Vec<Storm> = (0..20).flat_map(|seed| storms(seed, 1800.0)).collect();
        let has = |name: &str| {
            all.iter()
                .flat_map(|storm| &storm.disruptions)
                .any(|(_, one)| one.name() == name)
        };
        for name in [
            "leader SIGKILL",
            "leader SIGTERM",
            "standby SIGKILL",
            "both SIGKILL",
            "leader frozen",
            "API server restarted",
            "source restarted",
        ] {
            assert!(has(name), "{name}");
        }
        let late = all.iter().filter(|storm| storm.from > 1200.0);
        for (_, disruption) in late.flat_map(|storm| &storm.disruptions) {
            assert!(
                matches!(disruption, Disruption::ApiServer(_) | Disruption::Source(_)),
                "{disruption:?}"
            );
        }
    }
}
