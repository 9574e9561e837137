//! Programmable command formats: a header and its parameters.

use libmqm_sys::pcf as mq;

use crate::protocol::Chars;

/// More parameters in a command are refused.
const MAX_PARAMETERS: usize = 1_000;

/// Strings of replies are in this character set.
const CCSID: i32 = 1208;

#[derive(Debug)]
pub(super) struct Command {
    pub(super) code: i32,
    parameters: Vec<Parameter>,
}

#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) id: i32,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(i32),
    Numbers(Vec<i32>),
    Text(Chars),
    Texts(Vec<Chars>),
    NumberFilter(i32, i32),
    TextFilter(i32, Chars),
    /// Of a type that no command here takes.
    Other,
}

/// The bytes of a message, with its numbers in the order that its descriptor says.
struct Reader<'a> {
    bytes: &'a [u8],
    reversed: bool,
}

impl<'a> Reader<'a> {
    fn number(&self, index: usize) -> Option<i32> {
        let bytes = self.bytes.get(index * 4..)?.first_chunk::<4>()?;
        Some(if self.reversed { i32::from_le_bytes(*bytes) } else { i32::from_be_bytes(*bytes) })
    }

    fn length(&self, index: usize) -> Option<usize> {
        usize::try_from(self.number(index)?).ok()
    }

    fn text(&self, length_at: usize) -> Option<Chars> {
        let start = (length_at + 1) * 4;
        Some(Chars::from_field(self.bytes.get(start..)?.get(..self.length(length_at)?)?))
    }

    /// Splits off a structure of the length that it says of itself.
    fn structure(&mut self) -> Option<Reader<'a>> {
        let length = self.length(1)?;
        let (structure, rest) = self.bytes.split_at_checked(length).filter(|_| length >= 16)?;
        self.bytes = rest;
        Some(Reader { bytes: structure, reversed: self.reversed })
    }
}

impl Command {
    /// Reads a command, or says by a reason code of PCF what is wrong with it.
    pub(super) fn read(bytes: &[u8], reversed: bool) -> Result<Self, (i32, i32)> {
        let mut reader = Reader { bytes, reversed };
        let header = reader.structure().ok_or((0, mq::MQRCCF_CFH_LENGTH_ERROR))?;
        let field = |index| header.number(index).ok_or((0, mq::MQRCCF_CFH_LENGTH_ERROR));
        let code = field(3)?;
        if ![mq::MQCFT_COMMAND, mq::MQCFT_COMMAND_XR].contains(&field(0)?) {
            return Err((code, mq::MQRCCF_CFH_TYPE_ERROR));
        }
        if field(4)? != 1 {
            return Err((code, mq::MQRCCF_CFH_MSG_SEQ_NUMBER_ERR));
        }
        if field(5)? != mq::MQCFC_LAST {
            return Err((code, mq::MQRCCF_CFH_CONTROL_ERROR));
        }
        let count = usize::try_from(field(8)?).ok().filter(|count| *count <= MAX_PARAMETERS);
        let count = count.ok_or((code, mq::MQRCCF_CFH_PARM_COUNT_ERROR))?;
        let mut parameters = Vec::new();
        for _ in 0..count {
            let structure = reader.structure().ok_or((code, mq::MQRCCF_MSG_LENGTH_ERROR))?;
            parameters.push(parameter(&structure).ok_or((code, mq::MQRCCF_STRUCTURE_TYPE_ERROR))?);
        }
        Ok(Self { code, parameters })
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter()
    }

    pub(super) fn value(&self, id: i32) -> Option<&Value> {
        self.parameters.iter().find(|parameter| parameter.id == id).map(|parameter| &parameter.value)
    }

    pub(super) fn number(&self, id: i32) -> Option<i32> {
        match self.value(id)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn text(&self, id: i32) -> Option<&Chars> {
        match self.value(id)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

fn parameter(structure: &Reader<'_>) -> Option<Parameter> {
    let value = match structure.number(0)? {
        mq::MQCFT_INTEGER => Value::Number(structure.number(3)?),
        mq::MQCFT_INTEGER_LIST => {
            let count = structure.length(3)?.min(structure.bytes.len());
            Value::Numbers((0..count).map(|at| structure.number(4 + at)).collect::<Option<_>>()?)
        }
        mq::MQCFT_STRING => Value::Text(structure.text(4)?),
        mq::MQCFT_STRING_LIST => {
            let (count, length) = (structure.length(4)?, structure.length(5)?);
            let texts = structure.bytes.get(24..)?.get(..count.checked_mul(length)?)?;
            Value::Texts(texts.chunks_exact(length.max(1)).map(Chars::from_field).collect())
        }
        mq::MQCFT_INTEGER_FILTER => Value::NumberFilter(structure.number(3)?, structure.number(4)?),
        mq::MQCFT_STRING_FILTER => Value::TextFilter(structure.number(3)?, structure.text(5)?),
        _ => Value::Other,
    };
    Some(Parameter { id: structure.number(2)?, value })
}

/// One message of a reply.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) reason: i32,
    pub(super) parameters: Vec<(i32, Value)>,
}

impl Response {
    pub(super) fn failed(reason: i32) -> Self {
        Self { reason, parameters: Vec::new() }
    }

    /// The bytes of the message, which is the `sequence`th of its command's.
    pub(super) fn write(&self, code: i32, sequence: usize, is_last: bool) -> Vec<u8> {
        let completion = if self.reason == 0 { libmqm_sys::MQCC_OK } else { libmqm_sys::MQCC_FAILED };
        let mut bytes = Vec::new();
        numbers(
            &mut bytes,
            &[
                mq::MQCFT_RESPONSE,
                length(mq::MQCFH_STRUC_LENGTH),
                mq::MQCFH_VERSION_1,
                code,
                length(sequence),
                if is_last { mq::MQCFC_LAST } else { mq::MQCFC_NOT_LAST },
                completion,
                self.reason,
                length(self.parameters.len()),
            ],
        );
        for (id, value) in &self.parameters {
            write_value(&mut bytes, *id, value);
        }
        bytes
    }
}

fn length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

fn numbers(bytes: &mut Vec<u8>, numbers: &[i32]) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
}

fn write_value(bytes: &mut Vec<u8>, id: i32, value: &Value) {
    match value {
        Value::Number(number) => {
            numbers(bytes, &[mq::MQCFT_INTEGER, length(mq::MQCFIN_STRUC_LENGTH), id, *number]);
        }
        Value::Numbers(list) => {
            let whole = mq::MQCFIL_STRUC_LENGTH_FIXED + 4 * list.len();
            numbers(bytes, &[mq::MQCFT_INTEGER_LIST, length(whole), id, length(list.len())]);
            numbers(bytes, list);
        }
        Value::Text(text) => {
            let padded = text.padded(text.as_bytes().len().next_multiple_of(4));
            let whole = mq::MQCFST_STRUC_LENGTH_FIXED + padded.len();
            let size = length(padded.len());
            numbers(bytes, &[mq::MQCFT_STRING, length(whole), id, CCSID, size]);
            bytes.extend(padded);
        }
        Value::Texts(list) => {
            let size = libmqm_sys::MQ_Q_NAME_LENGTH;
            let whole = mq::MQCFSL_STRUC_LENGTH_FIXED + size * list.len();
            numbers(
                bytes,
                &[mq::MQCFT_STRING_LIST, length(whole), id, CCSID, length(list.len()), length(size)],
            );
            bytes.extend(list.iter().flat_map(|text| text.padded(size)));
        }
        Value::NumberFilter(..) | Value::TextFilter(..) | Value::Other => {}
    }
}

#[cfg(test)]
mod tests {
    use libmqm_sys::pcf as mq;

    use super::{Command, Response, Value};
    use crate::protocol::Chars;

    /// A response is a command in all but its type.
    fn command(parameters: Vec<(i32, Value)>) -> Vec<u8> {
        let mut bytes = Response { reason: 0, parameters }.write(mq::MQCMD_INQUIRE_Q, 1, true);
        bytes.splice(..4, mq::MQCFT_COMMAND.to_ne_bytes());
        bytes
    }

    #[test]
    fn parameters_are_read_as_they_are_written() {
        let parameters = vec![
            (1, Value::Number(-5)),
            (2, Value::Numbers(vec![1, 2, 3])),
            (3, Value::Text(Chars::from("five5"))),
            (4, Value::Texts(vec![Chars::from("A"), Chars::from("BB")])),
        ];
        let command = Command::read(&command(parameters.clone()), cfg!(target_endian = "little")).unwrap();
        assert_eq!(command.code, mq::MQCMD_INQUIRE_Q);
        for (id, value) in parameters {
            assert_eq!(command.value(id), Some(&value));
        }
    }

    #[test]
    fn a_command_that_is_cut_or_wrong_has_a_reason() {
        let whole = command(vec![(1, Value::Number(7)), (3, Value::Text(Chars::from("name")))]);
        for cut in 0..whole.len() {
            assert!(Command::read(whole.get(..cut).unwrap(), true).is_err(), "{cut}");
        }
        assert!(Command::read(&whole, false).is_err());
    }
}
