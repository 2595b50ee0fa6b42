//! The wire format: tagged records, each a number or bytes.

use super::ProtobufError;

/// One record, not yet read as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raw<'a> {
    Number(i64),
    Bytes(&'a [u8]),
}

impl<'a> Raw<'a> {
    pub(super) fn number(self) -> Result<i64, ProtobufError> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err(ProtobufError::Malformed("bytes where a number belongs")),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], ProtobufError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(ProtobufError::Malformed("a number where bytes belong")),
        }
    }

    pub(super) fn text(self) -> Result<String, ProtobufError> {
        let text = std::str::from_utf8(self.bytes()?);
        text.map(str::to_owned)
            .map_err(|_| ProtobufError::Malformed("a text that is not UTF-8"))
    }
}

/// The records of a message, in order.
pub(super) fn records(mut bytes: &[u8]) -> Result<Vec<(u64, Raw<'_>)>, ProtobufError> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let record = match tag & 7 {
            0 => Raw::Number(varint(&mut bytes)?.cast_signed()),
            1 => Raw::Bytes(take(&mut bytes, 8)?),
            2 => {
                let length = varint(&mut bytes)?;
                Raw::Bytes(take(&mut bytes, length)?)
            }
            5 => Raw::Bytes(take(&mut bytes, 4)?),
            _ => return Err(ProtobufError::Malformed("an unknown wire type")),
        };
        records.push((tag >> 3, record));
    }
    Ok(records)
}

fn take<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8], ProtobufError> {
    let length = usize::try_from(length).ok();
    let parts = length.and_then(|length| bytes.split_at_checked(length));
    let (taken, rest) = parts.ok_or(ProtobufError::Malformed("it ends too early"))?;
    *bytes = rest;
    Ok(taken)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, ProtobufError> {
    let mut value = 0;
    // Seven bits a byte: ten bytes hold 64 bits.
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes
            .split_first()
            .ok_or(ProtobufError::Malformed("it ends too early"))?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ProtobufError::Malformed("a number that is too long"))
}
