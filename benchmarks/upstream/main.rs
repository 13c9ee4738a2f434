//! The upstream the clients read from: it answers any POST with a prepared answer, on loopback, std only.
//!
//! `upstream DIR` loads DIR/*.sse and DIR/*.json, prints its port and serves until its standard input ends.
//! `/NAME/burst/...`     the whole answer in one write
//! `/NAME/live-MICROS/...`  one event a write, so many microseconds apart
//! `/NAME/hold/...`      the first three events, and nothing more for as long as the client stays
//! Streams are chunked, one event a chunk, as model hosts send them; JSON has a length and is one write in every mode.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, process, thread};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const MISSING: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
const LENGTH_REQUIRED: &[u8] = b"HTTP/1.1 411 Length Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const MAX_REQUEST: usize = 16 << 20;

/// The writes of one answer: its head, each event, its end.
type Answer = Vec<Vec<u8>>;

fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn answer_of(stream: &[u8]) -> Answer {
    let mut writes = vec![HEAD.to_vec()];
    let mut rest = stream;
    while let Some(end) = position(rest, b"\n\n") {
        let (event, after) = rest.split_at(end + 2);
        let mut chunk = format!("{:x}\r\n", event.len()).into_bytes();
        chunk.extend_from_slice(event);
        chunk.extend_from_slice(b"\r\n");
        writes.push(chunk);
        rest = after;
    }
    writes.push(b"0\r\n\r\n".to_vec());
    writes
}

fn body_of(body: &[u8]) -> Answer {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    vec![[head.as_bytes(), body].concat()]
}

fn load(directory: &Path) -> io::Result<HashMap<String, Answer>> {
    let mut answers = HashMap::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("sse") => answers.insert(name, answer_of(&fs::read(&path)?)),
            Some("json") => answers.insert(name, body_of(&fs::read(&path)?)),
            _ => None,
        };
    }
    Ok(answers)
}

/// The path of the next request, its body read past; None when the client is gone.
fn next_request(client: &mut TcpStream, held: &mut Vec<u8>) -> io::Result<Option<String>> {
    let mut buffer = [0u8; 65536];
    let mut wanted = None;
    loop {
        if wanted.is_none() {
            if let Some(end) = position(held, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&held[..end]).to_ascii_lowercase();
                let length = head.split("\r\ncontent-length:").nth(1).and_then(|rest| rest.split("\r\n").next());
                match length.and_then(|text| text.trim().parse::<usize>().ok()) {
                    Some(length) => wanted = Some(end + 4 + length),
                    None => {
                        client.write_all(LENGTH_REQUIRED)?;
                        return Ok(None);
                    }
                }
            }
        }
        if let Some(size) = wanted {
            if held.len() >= size {
                let line = String::from_utf8_lossy(&held[..position(held, b"\r\n").unwrap_or(0)]).into_owned();
                held.drain(..size);
                return Ok(line.split(' ').nth(1).map(str::to_owned));
            }
        }
        if held.len() > MAX_REQUEST {
            return Ok(None);
        }
        match client.read(&mut buffer)? {
            0 => return Ok(None),
            count => held.extend_from_slice(&buffer[..count]),
        }
    }
}

fn serve(mut client: TcpStream, answers: &HashMap<String, Answer>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut held = Vec::new();
    while let Some(path) = next_request(&mut client, &mut held)? {
        let mut parts = path.split('/').skip(1);
        let answer = answers.get(parts.next().unwrap_or(""));
        let mode = parts.next().unwrap_or("");
        match (answer, mode.strip_prefix("live-").and_then(|text| text.parse().ok())) {
            (None, _) => client.write_all(MISSING)?,
            (Some(writes), None) if mode == "hold" => client.write_all(&writes[..4.min(writes.len())].concat())?,
            (Some(writes), None) => client.write_all(&writes.concat())?,
            (Some(writes), Some(micros)) => {
                for write in writes {
                    client.write_all(write)?;
                    thread::sleep(Duration::from_micros(micros));
                }
            }
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let directory = env::args().nth(1).expect("usage: upstream DIRECTORY");
    let answers = Arc::new(load(Path::new(&directory))?);
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    for client in listener.incoming() {
        let (client, answers) = (client?, Arc::clone(&answers));
        thread::spawn(move || serve(client, &answers));
    }
    Ok(())
}
