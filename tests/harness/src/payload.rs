//! Taking `DUMP` payloads apart and putting damaged ones together, so that the damage reaches the module.
//!
//! A payload is a value as an RDB file has it, the RDB version in two bytes, and a CRC-64 of all that. The value of a module's
//! type is `07`, the type's id (a name of nine characters and ten bits of encoding version), fields with a code in front (a number
//! `02`, a string `05`) and `00`.

/// A payload of a module's value, whose fields are all strings.
#[derive(Clone)]
pub struct Payload {
    /// The type's name and encoding version.
    pub id: u64,
    /// The fields.
    pub strings: Vec<Vec<u8>>,
    version: [u8; 2],
}

impl Payload {
    /// Takes a payload apart; its strings must not be compressed (`rdbcompression no`).
    #[track_caller]
    pub fn of(bytes: &[u8]) -> Self {
        let (body, footer) = bytes.split_at(bytes.len() - 10);
        assert_eq!(sealed(bytes[..bytes.len() - 8].to_vec()), bytes, "the server computes its checksum as we do");
        assert_eq!(body[..2], [7, 0x81], "a value of a module");
        let id = u64::from_be_bytes(body[2..10].try_into().expect("eight bytes"));
        let (mut rest, mut strings) = (&body[10..], vec![]);
        while rest[0] == 5 {
            let (len, start) = length(&rest[1..]);
            strings.push(rest[1 + start..1 + start + len].to_vec());
            rest = &rest[1 + start + len..];
        }
        assert_eq!(rest, [0], "strings and the end");
        Self { id, strings, version: [footer[0], footer[1]] }
    }

    /// The value as it stands in an RDB file.
    pub fn value(&self) -> Vec<u8> {
        let mut bytes = vec![7, 0x81];
        bytes.extend(self.id.to_be_bytes());
        for string in &self.strings {
            bytes.extend([5, 0x80]);
            bytes.extend(u32::try_from(string.len()).expect("a short string").to_be_bytes());
            bytes.extend(string);
        }
        bytes.push(0);
        bytes
    }

    /// The payload for `RESTORE`.
    pub fn bytes(&self) -> Vec<u8> {
        sealed([self.value(), self.version.to_vec()].concat())
    }

    /// The same with another encoding version of its type.
    pub fn with_encoding(&self, encoding: u64) -> Self {
        Self { id: self.id >> 10 << 10 | encoding, ..self.clone() }
    }
}

/// `payload`, which ends with the RDB version, with its checksum.
pub fn sealed(mut payload: Vec<u8>) -> Vec<u8> {
    payload.extend(crc64(&payload).to_le_bytes());
    payload
}

/// A length of an RDB file, and how many bytes it took.
#[track_caller]
fn length(bytes: &[u8]) -> (usize, usize) {
    match (bytes[0] >> 6, bytes[0]) {
        (0, short) => (usize::from(short), 1),
        (1, high) => (usize::from(high & 0x3f) << 8 | usize::from(bytes[1]), 2),
        (_, 0x80) => (u32::from_be_bytes(bytes[1..5].try_into().expect("four bytes")).try_into().expect("64 bits"), 5),
        (_, other) => panic!("no plain length: {other:#x}"),
    }
}

/// CRC-64 with the polynomial of Jones, bits reflected: the checksum of RDB files and `DUMP` payloads.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_servers() {
        // The test vector in the servers' crc64.c.
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn a_payload_comes_back_from_its_parts() {
        let payload =
            Payload { id: 77 << 10 | 1, strings: vec![vec![], vec![7; 100], vec![8; 20_000]], version: [10, 0] };
        let again = Payload::of(&payload.bytes());
        assert_eq!((again.id, again.strings, again.version), (payload.id, payload.strings, payload.version));
    }
}
