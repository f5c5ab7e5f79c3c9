//! Tests the header `grpc-timeout`, the client that writes it, and the response to a late gRPC request.

use proptest::prelude::*;

use super::*;

/// Parses a value by the specification: at most 8 digits, and then a unit.
fn oracle(value: &str) -> Option<Duration> {
    let nanos: u128 = match value.chars().last()? {
        'H' => 3_600_000_000_000,
        'M' => 60_000_000_000,
        'S' => 1_000_000_000,
        'm' => 1_000_000,
        'u' => 1_000,
        'n' => 1,
        _ => return None,
    };
    let digits = &value[..value.len() - 1];
    if !(1..=8).contains(&digits.len()) || digits.contains(|c: char| !c.is_ascii_digit()) {
        return None;
    }
    let nanos = nanos * digits.parse::<u128>().unwrap();
    let (secs, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    Some(Duration::new(secs as u64, nanos as u32))
}

fn assert_as_oracle(value: &str) {
    assert_eq!(parse_grpc_timeout(value), oracle(value), "{value:?}");
}

#[test]
fn every_unit_and_every_border() {
    for unit in "HMSmun hs\u{0663}".chars() {
        for digits in " 0 1 00000000 99999999 000000001 +1 1.5"
            .split(' ')
            .chain([" 1"])
        {
            assert_as_oracle(&format!("{digits}{unit}"));
        }
    }
}

proptest! {
    #[test]
    fn values_nearly_well_formed_parse_as_the_specification_says(value in "[+-]?[0-9]{0,10}[ .HMSmunhs]{0,2}") {
        assert_as_oracle(&value);
    }

    #[test]
    fn any_bytes_are_parsed_without_a_panic(value: Vec<u8>) {
        let as_text = std::str::from_utf8(&value).ok().and_then(oracle);
        prop_assert_eq!(parse_grpc_timeout(&value), as_text);
    }
}

async fn never(_: Request<()>) -> Result<Response<String>, Infallible> {
    pending().await
}

/// Sends a request with `headers` through `layer`. Returns the response and how long it took.
async fn answer<L>(
    layer: TimeoutLayer<L>,
    headers: &[(&str, &[u8])],
) -> (Response<String>, Duration)
where
    L: tokio_wheel_util::tower::Limit<Request<()>> + Clone,
{
    let mut request = Request::new(());
    for (name, value) in headers {
        let name = http::HeaderName::try_from(*name).unwrap();
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append(name, value);
    }
    let start = Instant::now();
    let response = layer.layer(service_fn(never)).oneshot(request).await;
    (response.unwrap(), start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn the_smaller_limit_holds() {
    for (header, takes) in [
        (&b"50m"[..], ms(50)),
        (b"0n", ms(0)),
        (b"1H", secs(1)),
        // The value is malformed, so the limit of the layer holds.
        (b"50", secs(1)),
        (b"", secs(1)),
        (b"\xff", secs(1)),
    ] {
        let headers = [("grpc-timeout", header)];
        let (_, took) = answer(TimeoutLayer::new(secs(1)).grpc(), &headers).await;
        assert_eq!(took, takes, "{header:?}");
        // Without `grpc()`, the layer ignores the header.
        let (_, took) = answer(TimeoutLayer::new(secs(1)), &headers).await;
        assert_eq!(took, secs(1));
    }
    // The first of two headers holds.
    let headers = [("grpc-timeout", &b"2S"[..]), ("grpc-timeout", b"1S")];
    let unlimited = TimeoutLayer::new(|_: &Request<()>| None).grpc();
    assert_eq!(answer(unlimited, &headers).await.1, secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_grpc_request_has_a_grpc_answer() {
    let grpc = Some("application/grpc");
    let web = Some("application/grpc-web");
    let text = Some("application/grpc-web-text");
    for (given, expected) in [
        ("application/grpc", grpc),
        ("application/grpc+proto", grpc),
        ("Application/gRPC;charset=utf-8", grpc),
        ("application/grpc-web", web),
        ("application/grpc-web+proto", web),
        ("application/grpc-web-text", text),
        ("application/grpc-web-text+proto", text),
        ("application/grpcsomething", None),
        ("application/grp", None),
        ("application/json", None),
    ] {
        let headers = [("content-type", given.as_bytes())];
        let (response, took) = answer(TimeoutLayer::new(secs(1)).grpc(), &headers).await;
        assert_eq!(took, secs(1));
        assert!(response.body().is_empty());
        let content_type = response.headers().get("content-type");
        assert_eq!(content_type.map(|value| value.to_str().unwrap()), expected);
        if expected.is_some() {
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["grpc-status"], "4");
            let message = &response.headers()["grpc-message"];
            assert_eq!(message, "request was not answered in time");
        } else {
            assert_eq!(response.status(), 408);
            assert!(response.headers().is_empty());
        }
        // Without `grpc()`, a gRPC request gets the response of any other request.
        let (response, _) = answer(TimeoutLayer::new(secs(1)), &headers).await;
        assert_eq!(response.status(), 408);
    }
}

proptest! {
    /// A value is what the specification allows, never longer than the duration, and hardly shorter.
    #[test]
    fn a_formatted_duration_parses_back(secs in prop_oneof![0..200_u64, 0..200_000_u64, any::<u64>()], nanos in 0..1_000_000_000_u32) {
        let limit = Duration::new(secs, nanos);
        let value = format_grpc_timeout(limit);
        let parsed = oracle(value.to_str().unwrap()).unwrap();
        prop_assert_eq!(parse_grpc_timeout(&value), Some(parsed));
        prop_assert!(parsed <= limit);
        let longest = Duration::from_secs(99_999_999 * 3_600);
        prop_assert!(parsed == longest || limit - parsed <= limit / 100_000, "{:?} for {:?}", value, limit);
        // What a parser has returned is formatted without a loss.
        prop_assert_eq!(parse_grpc_timeout(format_grpc_timeout(parsed)), Some(parsed));
    }
}

#[test]
fn the_borders_of_the_units() {
    let nanos = Duration::from_nanos;
    for (limit, value) in [
        (Duration::ZERO, "0n"),
        (nanos(1), "1n"),
        (nanos(99_999_999), "99999999n"),
        (nanos(100_000_000), "100000u"),
        (nanos(99_999_999_999), "99999999u"),
        (secs(100), "100000m"),
        (ms(99_999_999), "99999999m"),
        (secs(100_000), "100000S"),
        (secs(99_999_999), "99999999S"),
        (secs(100_000_000), "1666666M"),
        (secs(60 * 99_999_999), "99999999M"),
        (secs(60 * 100_000_000), "1666666H"),
        (Duration::MAX, "99999999H"),
    ] {
        assert_eq!(format_grpc_timeout(limit), value, "{limit:?}");
    }
}

/// Returns the header that the channel gets, 1 s after the handler got a deadline of 3 s.
async fn told(in_scope: bool, given: Option<&'static str>) -> Option<HeaderValue> {
    let mut request = Request::new(());
    if let Some(given) = given {
        let given = HeaderValue::from_static(given);
        request.headers_mut().insert("grpc-timeout", given);
    }
    let look = service_fn(async |request: Request<()>| {
        let headers = request.headers();
        assert!(headers.get_all("grpc-timeout").iter().count() <= 1);
        Ok::<_, Infallible>(Response::new(headers.get("grpc-timeout").cloned()))
    });
    let handler = async {
        tokio_wheel::sleep(secs(1)).await;
        TimeoutHeaderLayer::grpc()
            .layer(look)
            .oneshot(request)
            .await
    };
    let response = match in_scope {
        true => within(secs(3), handler).await.unwrap(),
        false => handler.await,
    };
    response.unwrap().into_body()
}

#[tokio::test(start_paused = true)]
async fn a_client_tells_what_is_left() {
    for (deadline, given, expected) in [
        (true, None, Some("2000000u")),
        (true, Some("5S"), Some("2000000u")),
        (true, Some("1S"), Some("1S")),
        (true, Some("2S"), Some("2S")),
        (true, Some("soon"), Some("2000000u")),
        (false, Some("5S"), Some("5S")),
        (false, None, None),
    ] {
        let told = told(deadline, given).await;
        assert_eq!(told.as_ref().map(|value| value.to_str().unwrap()), expected);
    }
}
