//! Instructions for a write under a lock: guarded, alone, and with the fence compared by a script.

use super::DEEP;
use super::instructions::compare;
use crate::lab::Lab;
use crate::stand::Side;
use crate::ways::guard;

pub fn run(lab: &mut Lab) {
    // Without conditions `EXEC` takes no words.
    let conditional = lab.stand(Side::Plain).arity("EXEC") != 1;
    compare(lab, &format!("Instructions for a guarded command, pipelines of {DEEP}"), || {
        vec![(
            "a guarded SET",
            guard::writes(DEEP, conditional),
            &[Some([0.5, 0.5]), Some([1.9, 1.9])],
            guard::floor(DEEP),
        )]
    });
}
