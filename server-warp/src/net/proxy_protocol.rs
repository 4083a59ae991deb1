//! PROXY protocol, version 2: a proxy that forwards bytes sends the address of its client first.

use std::io;
use std::net::IpAddr;

use proxy_header::{Error, ParseConfig, Protocol, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Length of the fixed part, which ends with the length of the rest.
const FIXED_BYTES: usize = 16;

/// Maximum length of a header. Addresses take up to 216 bytes; extensions are ignored.
const HEADER_BYTES_MAX: usize = 4 * 1_024;

const PARSE_CONFIG: ParseConfig = ParseConfig {
    include_tlvs: false,
    allow_v1: false,
    allow_v2: true,
};

/// Reads the header and nothing after it. Returns the address of the client, or `None` if the proxy
/// itself is the client, as in a health check, or does not report the address.
///
/// # Errors [`InvalidData`](io::ErrorKind::InvalidData) for anything but a header; errors of the
/// stream.
pub(super) async fn read_client(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<IpAddr>> {
    let mut header = vec![0; FIXED_BYTES];
    stream.read_exact(&mut header).await?;
    // What is not a header has no length to wait for.
    if ProxyHeader::parse(&header, PARSE_CONFIG) == Err(Error::Invalid) {
        return Err(invalid("not a PROXY protocol header of version 2"));
    }
    let rest = u16::from_be_bytes([header[FIXED_BYTES - 2], header[FIXED_BYTES - 1]]);
    header.resize(FIXED_BYTES + usize::from(rest), 0);
    if header.len() > HEADER_BYTES_MAX {
        return Err(invalid("the PROXY protocol header is too long"));
    }
    stream.read_exact(&mut header[FIXED_BYTES..]).await?;
    let (header, _) = ProxyHeader::parse(&header, PARSE_CONFIG)
        .map_err(|_| invalid("malformed PROXY protocol header"))?;
    match header.proxied_address() {
        None => Ok(None),
        Some(address) if address.protocol == Protocol::Stream => Ok(Some(address.source.ip())),
        Some(_) => Err(invalid("the PROXY protocol header is of another protocol")),
    }
}

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
