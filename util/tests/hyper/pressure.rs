//! Tests the pressure, which shortens the idle limit.

use proptest::prelude::*;
use tokio_wheel::{Duration, Instant, sleep, sleep_until};
use tokio_wheel_util::hyper::{Connections, Limits, Reason};

use crate::{
    server::{Http1, Server, each, quiet},
    support::{ms, paused, secs},
};

/// Returns limits whose idle limit is `60 - n` seconds at a pressure of `n / 50`.
fn limits() -> Limits {
    Limits::new().idle(secs(60)).min_idle(secs(10))
}

#[test]
fn it_has_effect_at_once() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let mut ends = Vec::new();
        let mut clients = Vec::new();
        for _ in 0..4 {
            let (mut client, end) = server.client().await;
            client.get("/after/0").await.unwrap();
            clients.push(client);
            ends.push(end);
            sleep(secs(10)).await;
        }
        // The connections are 40, 30, 20 and 10 s old. The new limit is 25 s.
        server.connections.set_pressure(0.7);
        let expected = [40, 30, 25, 25].map(|age| quiet(Reason::Idle, secs(age)));
        for (end, expected) in ends.into_iter().zip(expected) {
            assert_eq!(end.await.unwrap(), expected, "{protocol:?}");
        }
    });
}

#[test]
fn it_rises_falls_and_rises_again() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let connections = &server.connections;
        let (mut first, first_end) = server.client().await;
        first.get("/after/0").await.unwrap();
        connections.set_pressure(0.5); // 35 s
        sleep(secs(20)).await;
        let (mut second, second_end) = server.client().await;
        second.get("/after/0").await.unwrap();
        connections.set_pressure(0.0); // 60 s
        sleep(secs(30)).await;
        assert!(!first_end.is_finished());
        // It is 50 s now. The first connection may stay until 55 s, and the second connection until 75 s.
        connections.set_pressure(0.1);
        connections.set_pressure(0.1);
        assert_eq!(
            first_end.await.unwrap(),
            quiet(Reason::Idle, secs(55)),
            "{protocol:?}"
        );
        connections.set_pressure(1.0); // 10 s
        assert_eq!(
            second_end.await.unwrap(),
            quiet(Reason::Idle, secs(35)),
            "{protocol:?}"
        );
        // A new connection has the short limit from its start.
        let (_third, third_end) = server.client().await;
        assert_eq!(third_end.await.unwrap().age, secs(10));
        assert_eq!(connections.counts().idle(), 3);
    });
}

#[test]
fn no_request_is_lost_to_it() {
    each(async |protocol| {
        let server = Server::new(protocol, limits());
        let (mut client, end) = server.client().await;
        let presses = async {
            for n in 0..20 {
                sleep(secs(2)).await;
                server.connections.set_pressure(f64::from(n % 3) / 2.0);
            }
            server.connections.set_pressure(1.0);
        };
        let (length, ()) = tokio::join!(client.get("/frames/10/4500"), presses);
        assert_eq!(length.unwrap(), 40);
        assert_eq!(
            end.await.unwrap(),
            quiet(Reason::Idle, secs(55)),
            "{protocol:?}"
        );
    });
}

/// The pressure changes neither the maximum age nor the grace.
#[test]
fn other_limits_stay() {
    each(async |protocol| {
        let limits = limits().max_age(secs(50)).jitter(0.0).grace(secs(20));
        let server = Server::new(protocol, limits);
        let (mut client, end) = server.client().await;
        let answer = tokio::spawn(async move { client.get("/after/100000").await });
        for n in 0..60 {
            sleep(secs(1)).await;
            server.connections.set_pressure(f64::from(n % 2));
        }
        assert!(answer.await.unwrap().is_err());
        let end = end.await.unwrap();
        assert_eq!(
            (end.reason, end.age),
            (Reason::MaxAge, secs(70)),
            "{protocol:?}"
        );
    });
}

#[test]
fn numbers_out_of_range_are_clamped() {
    paused().block_on(async {
        let ages = [
            (-1.0, 60),
            (f64::NAN, 60),
            (f64::NEG_INFINITY, 60),
            (7.0, 10),
            (f64::INFINITY, 10),
        ];
        for (pressure, age) in ages {
            let server = Server::new(Http1, limits());
            server.connections.set_pressure(pressure);
            let (_client, end) = server.connect();
            assert_eq!(
                end.await.unwrap(),
                quiet(Reason::Idle, secs(age)),
                "{pressure}"
            );
        }
    });
}

#[test]
fn without_a_least_limit_it_has_no_effect() {
    paused().block_on(async {
        let server = Server::new(Http1, Limits::new().idle(secs(60)));
        let (_client, end) = server.connect();
        server.connections.set_pressure(1.0);
        assert_eq!(end.await.unwrap(), quiet(Reason::Idle, secs(60)));
        let without_idle = Connections::new(Limits::new().min_idle(secs(60)));
        without_idle.set_pressure(1.0);
    });
}

/// Each rise increases the timer's lead. The timer is replaced during this test, because its lead becomes too long.
#[test]
fn it_may_rise_and_fall_forever() {
    paused().block_on(async {
        let hour = secs(3_600);
        let limits = Limits::new().idle(24 * hour).min_idle(Duration::ZERO);
        let server = Server::new(Http1, limits);
        let (_client, end) = server.connect();
        sleep(ms(1)).await;
        // Each rise is a leap by 23 hours. Together they are 105 years, and a timer is replaced after 100.
        for _ in 0..40_000 {
            server.connections.set_pressure(23.0 / 24.0);
            server.connections.set_pressure(0.0);
        }
        sleep(hour / 2).await;
        server.connections.set_pressure(23.0 / 24.0);
        let (_client, other) = server.connect();
        let ends = [end.await.unwrap(), other.await.unwrap()];
        assert_eq!(ends.map(|end| end.age), [hour; 2]);
    });
}

#[derive(Clone, Debug)]
enum Act {
    Wait(u64),
    Press(u32),
    Open,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (1..1_500_u64).prop_map(|n| Act::Wait(10 * n)),
        (0..=50_u32).prop_map(Act::Press),
        Just(Act::Open),
    ];
    prop::collection::vec(act, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A connection ends at its maximum age or at its idle limit, whichever comes first. Each change of the pressure
    /// changes the idle limit.
    #[test]
    fn deadlines_are_exact(acts in acts(), age in 20..90_u64) {
        paused().block_on(async {
            let limits = limits().max_age(secs(age)).jitter(0.0);
            let server = Server::new(Http1, limits);
            let start = Instant::now();
            // The instants at which the limit changes, and the new limits, in milliseconds.
            let mut now = 0;
            let mut changes = vec![(0, 60_000)];
            let mut opened = Vec::new();
            for act in acts {
                match act {
                    Act::Wait(millis) => {
                        now += millis;
                        sleep_until(start + ms(now)).await;
                    }
                    Act::Press(n) => {
                        // This instant is never a deadline. If it were, the deadline could come before or after
                        // the new pressure.
                        sleep_until(start + ms(now + 7)).await;
                        server.connections.set_pressure(f64::from(n) / 50.0);
                        changes.push((now + 7, 60_000 - 1_000 * u64::from(n)));
                        now += 10;
                        sleep_until(start + ms(now)).await;
                    }
                    Act::Open => opened.push((now, server.connect())),
                }
            }
            for (opened, (_client, end)) in opened {
                // A limit ends the connection if its deadline comes before the next change of the limit.
                let mut expected = u64::MAX;
                for (n, (from, limit)) in changes.iter().enumerate() {
                    let next = changes.get(n + 1).map_or(u64::MAX, |change| change.0);
                    let reached = (opened + limit).max(*from);
                    if next > opened && reached < next {
                        expected = reached;
                        break;
                    }
                }
                let of_age = opened + age * 1_000;
                let reason = if of_age <= expected { Reason::MaxAge } else { Reason::Idle };
                let end = end.await.unwrap();
                let expected = ms(expected.min(of_age) - opened);
                assert_eq!((end.age, end.reason), (expected, reason));
            }
        });
    }
}

/// A server may have an idle limit only under pressure.
#[test]
fn an_endless_limit_shrinks_too() {
    each(async |protocol| {
        let limits = Limits::new().idle(Duration::MAX).min_idle(secs(10));
        let server = Server::new(protocol, limits);
        let (mut client, end) = server.client().await;
        client.get("/after/0").await.unwrap();
        sleep(secs(100_000)).await;
        server.connections.set_pressure(1.0);
        assert_eq!(
            end.await.unwrap(),
            quiet(Reason::Idle, secs(100_000)),
            "{protocol:?}"
        );
    });
}
