//! The operators of C on its integer types, with the promotions and the wrapping that C has.

use crate::tracefs::c_type::Scalar;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Minus,
    Not,
    Complement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    And,
    ExclusiveOr,
    Or,
    BothTrue,
    EitherTrue,
}

/// What C makes of operands narrower than int.
fn promoted(scalar: Scalar) -> Scalar {
    if scalar.size < 4 { Scalar::INT } else { scalar }
}

/// The type in which two operands meet.
fn common(left: Scalar, right: Scalar) -> Scalar {
    let (left, right) = (promoted(left), promoted(right));
    match left.size.cmp(&right.size) {
        std::cmp::Ordering::Less => right,
        std::cmp::Ordering::Greater => left,
        std::cmp::Ordering::Equal => Scalar {
            size: left.size,
            signed: left.signed && right.signed,
        },
    }
}

pub(super) fn unary(operator: Unary, (bits, scalar): (u64, Scalar)) -> (u64, Scalar) {
    let promoted = promoted(scalar);
    match operator {
        Unary::Minus => (promoted.wrap(bits.wrapping_neg()), promoted),
        Unary::Complement => (promoted.wrap(!bits), promoted),
        Unary::Not => (u64::from(bits == 0), Scalar::INT),
    }
}

pub(super) fn binary(operator: Binary, left: (u64, Scalar), right: (u64, Scalar)) -> (u64, Scalar) {
    let meet = common(left.1, right.1);
    let (a, b) = (meet.wrap(left.0), meet.wrap(right.0));
    let truth = |value: bool| (u64::from(value), Scalar::INT);
    let less = |a: u64, b: u64| {
        if meet.signed {
            (a as i64) < (b as i64)
        } else {
            a < b
        }
    };
    let (bits, scalar) = match operator {
        Binary::Multiply => (a.wrapping_mul(b), meet),
        // Division by zero would be the kernel's own fault; it must not be ours.
        Binary::Divide if b == 0 => (0, meet),
        Binary::Remainder if b == 0 => (0, meet),
        Binary::Divide if meet.signed => ((a as i64).wrapping_div(b as i64) as u64, meet),
        Binary::Divide => (a / b, meet),
        Binary::Remainder if meet.signed => ((a as i64).wrapping_rem(b as i64) as u64, meet),
        Binary::Remainder => (a % b, meet),
        Binary::Add => (a.wrapping_add(b), meet),
        Binary::Subtract => (a.wrapping_sub(b), meet),
        Binary::ShiftLeft => {
            let scalar = promoted(left.1);
            (
                scalar.wrap(left.0).checked_shl(right.0 as u32).unwrap_or(0),
                scalar,
            )
        }
        Binary::ShiftRight => {
            let scalar = promoted(left.1);
            let value = scalar.wrap(left.0);
            let count = (right.0 as u32).min(63);
            let bits = if scalar.signed {
                ((value as i64) >> count) as u64
            } else {
                value >> count
            };
            (bits, scalar)
        }
        Binary::Less => return truth(less(a, b)),
        Binary::Greater => return truth(less(b, a)),
        Binary::LessOrEqual => return truth(!less(b, a)),
        Binary::GreaterOrEqual => return truth(!less(a, b)),
        Binary::Equal => return truth(a == b),
        Binary::NotEqual => return truth(a != b),
        Binary::And => (a & b, meet),
        Binary::ExclusiveOr => (a ^ b, meet),
        Binary::Or => (a | b, meet),
        Binary::BothTrue => return truth(left.0 != 0 && right.0 != 0),
        Binary::EitherTrue => return truth(left.0 != 0 || right.0 != 0),
    };
    (scalar.wrap(bits), scalar)
}
