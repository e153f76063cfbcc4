//! Numbers in decimal digits.

/// A number of so many digits fits in 64 bits.
const SURE: usize = 19;

/// A number in its canonical form: no sign, no leading zeros. `None` if it does not fit in 64 bits.
#[inline]
pub fn canonical(text: &[u8]) -> Option<u64> {
    if text.is_empty() || (text.len() > 1 && text.starts_with(b"0")) {
        return None;
    }
    // So many digits always fit, without a check of each.
    let (sure, rest) = text.split_at_checked(SURE).unwrap_or((text, &[]));
    let digit = |digit: &u8| Some(digit.wrapping_sub(b'0')).filter(|digit| *digit <= 9).map(u64::from);
    let value = sure.iter().try_fold(0_u64, |value, next| Some(value.wrapping_mul(10).wrapping_add(digit(next)?)))?;
    rest.iter().try_fold(value, |value, next| value.checked_mul(10)?.checked_add(digit(next)?))
}
