//! Numbers in decimal digits.

/// A number in its canonical form: no sign, no leading zeros. `None` if it does not fit in 64 bits.
#[inline]
#[must_use]
pub fn canonical(text: &[u8]) -> Option<u64> {
    if text.is_empty() || (text.len() > 1 && text.starts_with(b"0")) {
        return None;
    }
    text.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(digit.into()) }
    })
}
