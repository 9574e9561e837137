use access::Rate;

use super::*;
use crate::limits::table::memory::applied;

const START: i64 = 1_795_564_800 * SECOND;

/// Share of one environment under test, with the bucket that it takes units from, and a clock.
struct Stand {
    pace: Pace,
    share: Share,
    bucket: Option<Bucket>,
    now: i64,
    draws: usize,
}

impl Stand {
    fn new(per_second: f64, burst: u64) -> Self {
        let pace = Pace(Rate::new(per_second, Some(burst)).unwrap());
        Self { pace, share: Share::new(1, 1), bucket: None, now: START, draws: 0 }
    }

    fn make(&mut self, draw: &Draw) {
        self.draws += 1;
        let outcome = match applied(&draw.write, self.bucket.as_ref()) {
            Some(bucket) => {
                self.bucket = Some(bucket.clone());
                DrawOutcome::Made(bucket)
            }
            None => DrawOutcome::Refused(self.bucket.clone()),
        };
        self.share.apply_outcome(self.pace, draw, &outcome, self.now);
    }

    /// Decides about a request, and takes units from the bucket if the share needs them. Returns
    /// whether the request is admitted.
    fn take(&mut self, cost: u64) -> bool {
        for _ in 0..4 {
            match self.share.take(self.pace, cost, self.now) {
                Step::Admitted => return true,
                Step::Refused(_) => return false,
                Step::Draw(draw) => self.make(&draw),
            }
        }
        panic!("a share draws at most three times");
    }

    fn renew(&mut self) {
        if let Some(draw) = self.share.renewal(self.pace, self.now) {
            self.make(&draw);
        }
    }

    /// Empties the bucket, as if another environment had taken all units.
    fn empty(&mut self) {
        let tat = self.now + self.pace.capacity();
        let bucket = self.bucket.take().unwrap();
        self.bucket = Some(Bucket { tat, ..bucket });
    }
}

#[test]
fn a_share_doubles_until_it_is_a_chunk() {
    let mut stand = Stand::new(100.0, 100);
    let mut most = Vec::new();
    for _ in 0..100 {
        assert!(stand.take(1));
        stand.renew();
        most.push(stand.share.credit);
    }
    assert_eq!(most[..3], [2, 5, 4]);
    assert!(most.iter().all(|credit| *credit <= 73 + 36), "{most:?}");
    assert!(stand.draws < 15, "{}", stand.draws);
}

#[test]
fn an_old_share_is_good_for_one_request() {
    let mut stand = Stand::new(100.0, 100);
    for _ in 0..50 {
        assert!(stand.take(1));
        stand.renew();
    }
    assert!(stand.share.credit > 10);
    stand.now += 1_000 * SECOND;
    stand.empty();
    let draws = stand.draws;
    assert!(stand.take(1));
    assert_eq!((stand.draws, stand.share.credit), (draws, 0), "without a call");
    assert!(!stand.take(1));
}

#[test]
fn a_wrong_guess_costs_one_more_draw() {
    let mut stand = Stand::new(1.0, 5);
    assert!(stand.take(1));
    assert_eq!(stand.draws, 1);
    stand.empty();
    assert!(!stand.take(1), "another environment was faster");
    assert_eq!(stand.draws, 2);
    for _ in 0..100 {
        assert!(!stand.take(1));
    }
    assert_eq!(stand.draws, 2, "a refusal that is known costs nothing");
    stand.now += SECOND;
    assert!(stand.take(1));
}

#[test]
fn a_time_far_ahead_is_damage_and_a_full_bucket() {
    let mut stand = Stand::new(1.0, 5);
    assert!(stand.take(1));
    let damaged = stand.bucket.take().unwrap();
    stand.bucket = Some(Bucket { tat: START * 2, window: damaged.window * 2, ..damaged });
    assert!(stand.take(1));
    let mended = stand.bucket.clone().unwrap();
    assert_eq!((mended.tat, mended.window), (START + SECOND, START / WINDOW));
}

#[test]
fn debts_block_a_bucket_for_a_bounded_time() {
    let mut stand = Stand::new(0.001, 1);
    assert!(stand.take(1));
    for _ in 0..10 {
        stand.share.spend(1_000_000, stand.now);
        assert!(!stand.take(1));
    }
    let until = stand.bucket.clone().unwrap().tat;
    let longest = stand.now + stand.pace.capacity() + 2 * stand.pace.longest_debt();
    assert!(until <= longest, "{} s", (until - stand.now) / SECOND);
}

#[test]
fn what_is_left_counts_the_share_and_the_bucket() {
    let mut stand = Stand::new(10.0, 100);
    assert!(stand.take(30));
    assert_eq!(stand.share.left(stand.pace, stand.now), (70, START + 3 * SECOND));
    stand.renew();
    assert_eq!(stand.share.left(stand.pace, stand.now).0, 70);
    stand.now += SECOND;
    assert_eq!(stand.share.left(stand.pace, stand.now).0, 80);
}
