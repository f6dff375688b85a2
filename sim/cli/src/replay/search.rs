//! The search for outcomes of Kueue's races with which a replay agrees with its recording.

use super::compare::{Comparison, Recording};
use super::races::Races;
use super::{Replay, ReplayError};

/// The most races that are given another outcome, one after the other.
const ROUNDS: usize = 8;

/// The first of these may also be in all steps, or in a step before that of the first difference.
const FAR: usize = 3;

/// Races whose outcomes do not agree with the recording.
struct Candidate {
    races: Races,
    /// The first step with a difference.
    first: usize,
    /// The number of equal states.
    equal: usize,
}

impl Candidate {
    fn new(races: Races, compared: &Comparison) -> Self {
        Self {
            races,
            first: compared.first,
            equal: compared.equal,
        }
    }
}

/// The result of trying some races.
enum Found {
    /// One agrees.
    Equal,
    /// One has more equal states than the known one.
    Better(Candidate),
    Nothing,
}

impl Replay {
    /// Returns true if the replay agrees with other outcomes of the races than the usual ones,
    /// whose comparison is `usual`.
    pub(super) fn agrees_with_other_races(
        &self,
        usual: &Comparison,
        recording: &Recording<'_>,
    ) -> Result<bool, ReplayError> {
        let mut known = Candidate::new(Races::default(), usual);
        for round in 0..ROUNDS {
            let mut others = self.races_near(&known.races, known.first);
            if round < FAR {
                others.extend(self.races_before(&known.races, known.first));
            }
            match self.try_all(others, &known, recording)? {
                Found::Equal => return Ok(true),
                Found::Better(better) => known = better,
                Found::Nothing => break,
            }
        }
        Ok(false)
    }

    /// Plays the trace with each of these races.
    fn try_all(
        &self,
        races: Vec<Races>,
        known: &Candidate,
        recording: &Recording<'_>,
    ) -> Result<Found, ReplayError> {
        let mut most = known.equal;
        let mut found = Found::Nothing;
        for races in races {
            let (compared, _) = self.play(&races, Vec::new(), recording)?;
            if compared.differences.is_empty() {
                return Ok(Found::Equal);
            }
            if compared.equal > most {
                most = compared.equal;
                found = Found::Better(Candidate::new(races, &compared));
            }
        }
        Ok(found)
    }
}
