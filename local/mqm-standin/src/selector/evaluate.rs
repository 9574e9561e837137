//! The value of a selection string for a message, in SQL's logic of three values.

use std::cmp::Ordering;

use libmqm_sys as mq;

use super::Expression;
use crate::protocol::{Chars, Descriptor, Message, Value};

/// Evaluates a condition; `None` if its value is unknown.
pub(super) fn holds(condition: &Expression, message: &Message) -> Option<bool> {
    match value(condition, message)? {
        Value::Boolean(holds) => Some(holds),
        _ => None,
    }
}

fn value(expression: &Expression, message: &Message) -> Option<Value> {
    match expression {
        Expression::Literal(value) => Some(value.clone()),
        Expression::Property(name) => property(name, message),
        Expression::Negative(inner) => match value(inner, message)? {
            Value::Integer(number) => number.checked_neg().map(Value::Integer),
            Value::Float(number) => Some(Value::Float(-number)),
            _ => None,
        },
        Expression::Not(inner) => Some(Value::Boolean(!holds(inner, message)?)),
        Expression::Binary(left, operator @ ("AND" | "OR"), right) => {
            let decisive = Some(*operator == "OR");
            let (left, right) = (holds(left, message), holds(right, message));
            let known = if left == decisive || right == decisive { decisive } else { left.and(right) };
            known.map(Value::Boolean)
        }
        Expression::Binary(left, operator, right) => {
            binary(&value(left, message)?, operator, &value(right, message)?)
        }
        Expression::In(tested, list) => {
            let tested = value(tested, message)?;
            let mut entries = list.iter().filter_map(|entry| value(entry, message));
            let is_there = entries.any(|entry| binary(&tested, "=", &entry) == Some(Value::Boolean(true)));
            Some(Value::Boolean(is_there))
        }
        Expression::Like(tested, pattern, escape) => match value(tested, message)? {
            Value::Text(text) => Some(Value::Boolean(like(&text, pattern, *escape))),
            _ => None,
        },
        Expression::IsNull(tested) => Some(Value::Boolean(value(tested, message).is_none())),
    }
}

/// Evaluates a sum, product or comparison. Texts and Booleans have no order.
fn binary(left: &Value, operator: &str, right: &Value) -> Option<Value> {
    let order = match (left, right) {
        (Value::Text(_), Value::Text(_)) | (Value::Boolean(_), Value::Boolean(_)) => match operator {
            "=" | "<>" | "!=" if left == right => Ordering::Equal,
            "=" | "<>" | "!=" => Ordering::Less,
            _ => return None,
        },
        (Value::Integer(left), Value::Integer(right)) => match operator {
            "+" => return left.checked_add(*right).map(Value::Integer),
            "-" => return left.checked_sub(*right).map(Value::Integer),
            "*" => return left.checked_mul(*right).map(Value::Integer),
            "/" => return left.checked_div(*right).map(Value::Integer),
            _ => left.cmp(right),
        },
        _ => {
            let (left, right) = (float(left)?, float(right)?);
            match operator {
                "+" => return Some(Value::Float(left + right)),
                "-" => return Some(Value::Float(left - right)),
                "*" => return Some(Value::Float(left * right)),
                "/" => return Some(Value::Float(left / right)),
                _ => left.partial_cmp(&right)?,
            }
        }
    };
    Some(Value::Boolean(match operator {
        "=" => order.is_eq(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        _ => order.is_ne(),
    }))
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        // Selection compares as SQL does, approximately beyond 2^53.
        #[expect(clippy::cast_precision_loss)]
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

/// True if a text fits a pattern. `%` stands for any text, `_` for one letter.
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

fn property(name: &str, message: &Message) -> Option<Value> {
    let name = name.strip_prefix("usr.").unwrap_or(name);
    if let Some(value) = of_descriptor(name, &message.descriptor) {
        return Some(value);
    }
    let property = message.properties.iter().find(|property| property.name == name)?;
    match property.value().ok()? {
        Value::Null => None,
        Value::Bytes(bytes) => Some(digits(&bytes)),
        value => Some(value),
    }
}

fn of_descriptor(name: &str, descriptor: &Descriptor) -> Option<Value> {
    let number = |value: i32| Value::Integer(value.into());
    let text = |value: &Chars| Value::Text(value.to_string());
    let context = &descriptor.context;
    Some(match name {
        "JMSMessageID" => Value::Text(format!("ID:{}", hex::encode_upper(descriptor.message_id))),
        "JMSPriority" | "Root.MQMD.Priority" => number(descriptor.priority),
        "JMSDeliveryMode" => {
            let is_persistent = descriptor.persistence == mq::MQPER_PERSISTENT;
            Value::Text(if is_persistent { "PERSISTENT" } else { "NON_PERSISTENT" }.to_owned())
        }
        "Root.MQMD.MsgId" => digits(&descriptor.message_id),
        "Root.MQMD.CorrelId" => digits(&descriptor.correlation_id),
        "Root.MQMD.GroupId" => digits(&descriptor.group_id),
        "Root.MQMD.Persistence" => number(descriptor.persistence),
        "Root.MQMD.MsgType" => number(descriptor.message_type),
        "Root.MQMD.Feedback" => number(descriptor.feedback),
        "Root.MQMD.BackoutCount" => number(descriptor.backout_count),
        "Root.MQMD.MsgSeqNumber" => number(descriptor.sequence),
        "Root.MQMD.Format" => text(&descriptor.format),
        "Root.MQMD.ReplyToQ" => text(&descriptor.reply_to_queue),
        "Root.MQMD.ReplyToQMgr" => text(&descriptor.reply_to_manager),
        "Root.MQMD.UserIdentifier" => text(&context.user),
        "Root.MQMD.ApplIdentityData" => text(&context.identity_data),
        "Root.MQMD.PutApplName" => text(&context.application),
        "Root.MQMD.ApplOriginData" => text(&context.origin_data),
        _ => return None,
    })
}

/// Returns bytes as a selection string writes them.
fn digits(bytes: &[u8]) -> Value {
    Value::Text(format!("0x{}", hex::encode_upper(bytes)))
}
