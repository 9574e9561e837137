//! Whether a message fulfils a condition, in SQL's logic of three values.

use std::cmp::Ordering;
use std::fmt::Write as _;

use libmqm_sys as mq;

use super::{Comparison, Condition, Expression};
use crate::protocol::{Chars, Descriptor, Message, Value};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

/// `None` if it cannot be known.
pub(super) fn holds(condition: &Condition, message: &Message) -> Option<bool> {
    match condition {
        Condition::And(left, right) => match (holds(left, message), holds(right, message)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        Condition::Or(left, right) => match (holds(left, message), holds(right, message)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Condition::Not(inner) => holds(inner, message).map(|holds| !holds),
        Condition::Compare(left, comparison, right) => {
            compare(&value(left, message)?, *comparison, &value(right, message)?)
        }
        Condition::Between(tested, least, most) => {
            let tested = value(tested, message)?;
            let over = compare(&tested, Comparison::GreaterOrEqual, &value(least, message)?)?;
            let under = compare(&tested, Comparison::LessOrEqual, &value(most, message)?)?;
            Some(over && under)
        }
        Condition::In(tested, list) => {
            let tested = value(tested, message)?;
            let is =
                |entry| value(entry, message).and_then(|entry| compare(&tested, Comparison::Equal, &entry));
            Some(list.iter().any(|entry| is(entry) == Some(true)))
        }
        Condition::Like(tested, pattern, escape) => match value(tested, message)? {
            Operand::Text(text) => Some(like(&text, pattern, *escape)),
            _ => None,
        },
        Condition::IsNull(tested) => Some(value(tested, message).is_none()),
        Condition::Holds(tested) => match value(tested, message)? {
            Operand::Boolean(holds) => Some(holds),
            _ => None,
        },
    }
}

fn value(expression: &Expression, message: &Message) -> Option<Operand> {
    match expression {
        Expression::Literal(operand) => Some(operand.clone()),
        Expression::Property(name) => property(name, message),
        Expression::Negative(inner) => match value(inner, message)? {
            Operand::Integer(number) => number.checked_neg().map(Operand::Integer),
            Operand::Float(number) => Some(Operand::Float(-number)),
            _ => None,
        },
        Expression::Arithmetic(left, sign, right) => {
            arithmetic(&value(left, message)?, *sign, &value(right, message)?)
        }
    }
}

fn arithmetic(left: &Operand, sign: char, right: &Operand) -> Option<Operand> {
    if let (Operand::Integer(left), Operand::Integer(right)) = (left, right) {
        let result = match sign {
            '+' => left.checked_add(*right),
            '-' => left.checked_sub(*right),
            '*' => left.checked_mul(*right),
            _ => left.checked_div(*right),
        };
        return result.map(Operand::Integer);
    }
    let (left, right) = (float(left)?, float(right)?);
    Some(Operand::Float(match sign {
        '+' => left + right,
        '-' => left - right,
        '*' => left * right,
        _ => left / right,
    }))
}

fn compare(left: &Operand, comparison: Comparison, right: &Operand) -> Option<bool> {
    let order = match (left, right) {
        // Texts and Booleans have no order.
        (Operand::Text(left), Operand::Text(right)) => equality(left == right, comparison)?,
        (Operand::Boolean(left), Operand::Boolean(right)) => equality(left == right, comparison)?,
        (Operand::Integer(left), Operand::Integer(right)) => left.cmp(right),
        _ => float(left)?.partial_cmp(&float(right)?)?,
    };
    Some(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

fn equality(equal: bool, comparison: Comparison) -> Option<Ordering> {
    let comparable = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
    comparable.then_some(if equal { Ordering::Equal } else { Ordering::Less })
}

fn float(operand: &Operand) -> Option<f64> {
    match operand {
        Operand::Float(number) => Some(*number),
        // Selection compares as SQL does, approximately beyond 2^53.
        #[expect(clippy::cast_precision_loss)]
        Operand::Integer(number) => Some(*number as f64),
        Operand::Text(_) | Operand::Boolean(_) => None,
    }
}

/// `%` stands for any text, `_` for one letter.
fn like(text: &str, pattern: &str, escape: Option<char>) -> bool {
    let text: Vec<char> = text.chars().collect();
    // For each part of the pattern, the lengths of text that it can have matched so far.
    let mut reached = vec![false; text.len() + 1];
    if let Some(start) = reached.first_mut() {
        *start = true;
    }
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let (letter, is_literal) = match escape {
            Some(escape) if letter == escape => (letters.next().unwrap_or(letter), true),
            _ => (letter, false),
        };
        if letter == '%' && !is_literal {
            let first = reached.iter().position(|&at| at).unwrap_or(reached.len());
            reached.iter_mut().skip(first).for_each(|at| *at = true);
        } else {
            let any = letter == '_' && !is_literal;
            let steps = text.iter().zip(&reached).map(|(next, &at)| at && (any || *next == letter));
            reached = std::iter::once(false).chain(steps).collect();
        }
    }
    reached.last() == Some(&true)
}

fn property(name: &str, message: &Message) -> Option<Operand> {
    let name = name.strip_prefix("usr.").unwrap_or(name);
    if let Some(operand) = of_descriptor(name, &message.descriptor) {
        return Some(operand);
    }
    let property = message.properties.iter().find(|property| property.name == name)?;
    Some(match &property.value {
        Value::Null => return None,
        Value::Boolean(value) => Operand::Boolean(*value),
        Value::Bytes(bytes) => Operand::Text(hex(bytes)),
        Value::Int8(number) => Operand::Integer(i64::from(*number)),
        Value::Int16(number) => Operand::Integer(i64::from(*number)),
        Value::Int32(number) => Operand::Integer(i64::from(*number)),
        Value::Int64(number) => Operand::Integer(*number),
        Value::Float32(number) => Operand::Float(f64::from(*number)),
        Value::Float64(number) => Operand::Float(*number),
        Value::Text(text) => Operand::Text(text.clone()),
    })
}

fn of_descriptor(name: &str, descriptor: &Descriptor) -> Option<Operand> {
    let number = |value: i32| Some(Operand::Integer(i64::from(value)));
    let text = |value: &Chars| Some(Operand::Text(value.to_string()));
    let id = |value: &[u8]| Some(Operand::Text(hex(value)));
    match name {
        "JMSMessageID" => {
            Some(Operand::Text(format!("ID:{}", hex(&descriptor.message_id).trim_start_matches("0x"))))
        }
        "JMSPriority" | "Root.MQMD.Priority" => number(descriptor.priority),
        "JMSDeliveryMode" => {
            let persistent = descriptor.persistence == mq::MQPER_PERSISTENT;
            Some(Operand::Text(if persistent { "PERSISTENT" } else { "NON_PERSISTENT" }.to_owned()))
        }
        "Root.MQMD.MsgId" => id(&descriptor.message_id),
        "Root.MQMD.CorrelId" => id(&descriptor.correlation_id),
        "Root.MQMD.GroupId" => id(&descriptor.group_id),
        "Root.MQMD.Persistence" => number(descriptor.persistence),
        "Root.MQMD.MsgType" => number(descriptor.message_type),
        "Root.MQMD.Feedback" => number(descriptor.feedback),
        "Root.MQMD.BackoutCount" => number(descriptor.backout_count),
        "Root.MQMD.MsgSeqNumber" => number(descriptor.sequence),
        "Root.MQMD.Format" => text(&descriptor.format),
        "Root.MQMD.ReplyToQ" => text(&descriptor.reply_to_queue),
        "Root.MQMD.ReplyToQMgr" => text(&descriptor.reply_to_manager),
        "Root.MQMD.UserIdentifier" => text(&descriptor.identity.user),
        "Root.MQMD.ApplIdentityData" => text(&descriptor.identity.data),
        "Root.MQMD.PutApplName" => text(&descriptor.origin.application),
        "Root.MQMD.ApplOriginData" => text(&descriptor.origin.data),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}
