//! A server for version 4 of the protocol of Cassandra and ScyllaDB, which answers at once.
//!
//! It has one node and no data. A prepared statement's id is the statement itself, so that the server keeps
//! no state. One thread serves each connection: it reads what has arrived, and writes all answers at once.

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use anyhow::{Context, Result};

pub(crate) const STATEMENT: &str = "INSERT INTO keyspace.table (key) VALUES (?)";

const HEADER: usize = 9;

const READY: u8 = 0x02;
const OPTIONS: u8 = 0x05;
const SUPPORTED: u8 = 0x06;
const RESULT: u8 = 0x08;
const PREPARE: u8 = 0x09;
const EXECUTE: u8 = 0x0a;

const BIGINT: &[u8] = &[0, 0x02];
const TEXT: &[u8] = &[0, 0x0d];
const UUID: &[u8] = &[0, 0x0c];
const INET: &[u8] = &[0, 0x10];
const SET_OF_TEXT: &[u8] = &[0, 0x22, 0, 0x0d];

pub(crate) fn run(address: &str) -> Result<()> {
    for connection in TcpListener::bind(address)?.incoming() {
        let connection = connection?;
        thread::spawn(move || {
            if let Err(error) = serve(connection) {
                eprintln!("{error:?}");
            }
        });
    }
    Ok(())
}

fn serve(mut connection: TcpStream) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut input = vec![0; 1 << 16];
    let (mut filled, mut output) = (0, Vec::new());
    loop {
        filled += match connection.read(&mut input[filled..]) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            read => read?,
        };
        let mut rest = &input[..filled];
        while let Some((header, body)) = rest.split_at_checked(HEADER) {
            let length = u32::from_be_bytes(header[5..].try_into()?) as usize;
            let Some((body, next)) = body.split_at_checked(length) else {
                break;
            };
            let (opcode, answer) = answer(header[4], body)?;
            output.extend_from_slice(&[0x84, 0, header[2], header[3], opcode]);
            output.extend_from_slice(&(answer.len() as u32).to_be_bytes());
            output.extend_from_slice(&answer);
            rest = next;
        }
        let used = filled - rest.len();
        input.copy_within(used..filled, 0);
        filled -= used;
        connection.write_all(&output)?;
        output.clear();
    }
}

fn answer(opcode: u8, body: &[u8]) -> Result<(u8, Vec<u8>)> {
    Ok(match opcode {
        OPTIONS => (SUPPORTED, vec![0, 0]),
        PREPARE => (RESULT, prepared(std::str::from_utf8(&body[4..])?)?),
        EXECUTE => {
            let length = u16::from_be_bytes(body[..2].try_into()?) as usize;
            let statement = std::str::from_utf8(&body[2..2 + length])?;
            (RESULT, execute(statement)?)
        }
        // The driver starts a connection or registers for events.
        _ => (READY, Vec::new()),
    })
}

fn prepared(statement: &str) -> Result<Vec<u8>> {
    let mut body = vec![0, 0, 0, 4];
    string(&mut body, statement);
    // The metadata of the parameters have the index of the partition key, those of the result do not.
    if statement == STATEMENT {
        body.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0]);
        columns(&mut body, &[("key", BIGINT)]);
        body.extend_from_slice(&[0; 8]);
    } else {
        body.extend_from_slice(&[0; 12]);
        metadata(&mut body, statement)?;
    }
    Ok(body)
}

fn execute(statement: &str) -> Result<Vec<u8>> {
    // A result without rows.
    if statement == STATEMENT {
        return Ok(vec![0, 0, 0, 1]);
    }
    let mut body = vec![0, 0, 0, 2];
    let columns = metadata(&mut body, statement)?;
    if !statement.contains("system.local") {
        body.extend_from_slice(&[0; 4]);
        return Ok(body);
    }
    body.extend_from_slice(&[0, 0, 0, 1]);
    for (name, _) in columns {
        let value: &[u8] = match name {
            "host_id" => &[1; 16],
            "rpc_address" => &[127, 0, 0, 1],
            "tokens" => &[0, 0, 0, 1, 0, 0, 0, 1, b'0'],
            _ => name.as_bytes(),
        };
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(value);
    }
    Ok(body)
}

/// Appends the columns that a `SELECT` names, and returns them.
fn metadata<'a>(body: &mut Vec<u8>, statement: &'a str) -> Result<Vec<(&'a str, &'static [u8])>> {
    let names = statement.strip_prefix("SELECT ");
    let names = names.and_then(|rest| rest.split_once(" FROM "));
    let (names, _) = names.with_context(|| format!("unexpected statement: {statement}"))?;
    let types = names.split(", ").map(|name| match name {
        "host_id" => (name, UUID),
        "rpc_address" => (name, INET),
        "tokens" => (name, SET_OF_TEXT),
        _ => (name, TEXT),
    });
    let types: Vec<_> = types.collect();
    body.extend_from_slice(&[0, 0, 0, 1]);
    body.extend_from_slice(&(types.len() as u32).to_be_bytes());
    columns(body, &types);
    Ok(types)
}

fn columns(body: &mut Vec<u8>, columns: &[(&str, &[u8])]) {
    string(body, "keyspace");
    string(body, "table");
    for (name, kind) in columns {
        string(body, name);
        body.extend_from_slice(kind);
    }
}

fn string(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(&(text.len() as u16).to_be_bytes());
    body.extend_from_slice(text.as_bytes());
}
