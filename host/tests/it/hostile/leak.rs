//! Whether what the process holds grows with the attacks it has seen.

/// What the process held after so many attacks, when nothing of them was left to end.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) attacks: usize,
    pub(crate) held: u64,
}

/// What each attack leaves behind: the median of the slopes between any two samples, so that one sample
/// that is off decides nothing.
pub(crate) fn left_by_each(samples: &[Sample]) -> f64 {
    let mut slopes: Vec<f64> = samples
        .iter()
        .enumerate()
        .flat_map(|(index, earlier)| samples.iter().skip(index + 1).map(|later| slope(*earlier, *later)))
        .collect();
    slopes.sort_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "no count here needs more than 52 bits")]
fn slope(earlier: Sample, later: Sample) -> f64 {
    let attacks = later.attacks.saturating_sub(earlier.attacks).max(1);
    (later.held as f64 - earlier.held as f64) / attacks as f64
}

#[test]
fn what_each_attack_leaves_is_seen_and_a_plateau_is_none() {
    /// What is held after so many attacks.
    type Course = fn(u64) -> u64;
    const MIB: u64 = 1 << 20;
    let courses: [(&str, Course, std::ops::RangeInclusive<f64>); 6] = [
        ("nothing changes", |_| 50 * MIB, 0.0..=0.0),
        ("each leaves 10,000 bytes", |attacks| 50 * MIB + attacks * 10_000, 9_999.0..=10_001.0),
        ("it goes up and down", |attacks| 50 * MIB + (attacks / 100 % 2) * MIB, -100.0..=100.0),
        ("one round is off by much", |attacks| 50 * MIB + u64::from(attacks == 300) * 40 * MIB, 0.0..=0.0),
        ("it fills in the first round", |attacks| 50 * MIB + u64::from(attacks > 100) * 40 * MIB, 0.0..=0.0),
        (
            "a leak below what goes up and down",
            |attacks| (attacks / 100 % 2) * MIB + attacks * 10_000,
            9_000.0..=11_000.0,
        ),
    ];
    for (name, held, expected) in courses {
        let sample = |round: u64| Sample { attacks: usize::try_from(100 * round).unwrap(), held: held(100 * round) };
        let left = left_by_each(&(1..=8).map(sample).collect::<Vec<_>>());
        assert!(expected.contains(&left), "{name}: {left}");
    }
}
