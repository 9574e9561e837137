//! Programmable command formats: a header and its parameters.

use libmqm_sys::pcf as mq;

use crate::protocol::Chars;

/// More parameters in a command are refused.
const MAX_PARAMETERS: usize = 1_000;

/// The character set of strings in replies.
const CCSID: i32 = 1208;

#[derive(Debug)]
pub(super) struct Command {
    pub(super) code: i32,
    pub(super) parameters: Vec<Parameter>,
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
    /// Names, in replies only.
    Texts(Vec<Chars>),
    /// An operator and a number, in commands only.
    NumberFilter(i32, i32),
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

    /// Splits off a structure of the length that it says of itself.
    fn structure(&mut self) -> Option<Reader<'a>> {
        let length = self.length(1)?;
        let (structure, rest) = self.bytes.split_at_checked(length).filter(|_| length >= 16)?;
        self.bytes = rest;
        Some(Reader { bytes: structure, reversed: self.reversed })
    }

    fn parameter(&self) -> Option<Parameter> {
        let value = match self.number(0)? {
            mq::MQCFT_INTEGER => Value::Number(self.number(3)?),
            mq::MQCFT_INTEGER_LIST => {
                let count = self.length(3)?.min(self.bytes.len());
                Value::Numbers((0..count).map(|at| self.number(4 + at)).collect::<Option<_>>()?)
            }
            mq::MQCFT_STRING => {
                let text = self.bytes.get(mq::MQCFST_STRUC_LENGTH_FIXED..)?.get(..self.length(4)?)?;
                Value::Text(Chars::from_field(text))
            }
            mq::MQCFT_INTEGER_FILTER => Value::NumberFilter(self.number(3)?, self.number(4)?),
            _ => return None,
        };
        Some(Parameter { id: self.number(2)?, value })
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
            parameters.push(structure.parameter().ok_or((code, mq::MQRCCF_STRUCTURE_TYPE_ERROR))?);
        }
        Ok(Self { code, parameters })
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

/// A message of a reply.
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
        let control = if is_last { mq::MQCFC_LAST } else { mq::MQCFC_NOT_LAST };
        let (sequence, count) = (length(sequence), length(self.parameters.len()));
        let rest = [mq::MQCFH_VERSION_1, code, sequence, control, completion, self.reason, count];
        let mut bytes = structure(mq::MQCFT_RESPONSE, &rest, &[]);
        for (id, value) in &self.parameters {
            bytes.extend(value.write(*id));
        }
        bytes
    }
}

impl Value {
    fn write(&self, id: i32) -> Vec<u8> {
        match self {
            Self::Number(number) => structure(mq::MQCFT_INTEGER, &[id, *number], &[]),
            Self::Numbers(list) => {
                let numbers = [&[id, length(list.len())], list.as_slice()].concat();
                structure(mq::MQCFT_INTEGER_LIST, &numbers, &[])
            }
            Self::Text(text) => {
                let padded = text.padded(text.as_bytes().len().next_multiple_of(4));
                structure(mq::MQCFT_STRING, &[id, CCSID, length(padded.len())], &padded)
            }
            Self::Texts(list) => {
                let size = libmqm_sys::MQ_Q_NAME_LENGTH;
                let texts: Vec<u8> = list.iter().flat_map(|text| text.padded(size)).collect();
                structure(mq::MQCFT_STRING_LIST, &[id, CCSID, length(list.len()), length(size)], &texts)
            }
            Self::NumberFilter(..) => Vec::new(),
        }
    }
}

fn length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// A structure: its type and length, numbers, and text.
fn structure(kind: i32, numbers: &[i32], text: &[u8]) -> Vec<u8> {
    let whole = 4 * (2 + numbers.len()) + text.len();
    let numbers = [kind, length(whole)].into_iter().chain(numbers.iter().copied());
    numbers.flat_map(i32::to_ne_bytes).chain(text.iter().copied()).collect()
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
