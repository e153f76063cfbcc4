//! Stories of taking: once, within the limit, in the window, while there is something.

use super::shop::{names, row, says, shop, with};
use crate::core::sale::{Alteration, Answer, Status, TakeError, Terms};
use crate::core::time::UnixMs;

#[test]
fn once_means_once() {
    let mut shop = shop(3);
    assert_eq!(shop.order("ann", 1, None, 0, "o-1"), names(Status::Ok, 1, 2, -1, "o-1"));
    assert_eq!(shop.order("ann", 2, None, 0, "o-2"), names(Status::Duplicate, 1, 2, -1, "o-1"), "the earlier stands");
    assert_eq!(shop.sale.seq(), 1);
}

#[test]
fn a_winner_who_retries_after_the_end_hears_duplicate() {
    let mut shop = with(Terms { total: 1, limit: 1, end: Some(UnixMs(2_000)), ..Terms::default() });
    assert_eq!(shop.take("ann", 1), says(Status::Ok, 1, 0, -1));
    assert_eq!(shop.take("ann", 1), says(Status::Duplicate, 1, 0, -1));
    assert_eq!(shop.take("bob", 1), says(Status::SoldOut, 0, 0, -1));
    shop.now = 2_000;
    assert_eq!(shop.take("ann", 1), says(Status::Duplicate, 1, 0, -1));
    assert_eq!(shop.take("bob", 1), says(Status::Ended, 0, 0, -1));
    assert_eq!(shop.buy("o2", 1, "ann"), says(Status::Limit, 0, 0, -1), "the limit is looked at before the window");
}

#[test]
fn too_little_is_not_nothing() {
    let mut shop = shop(3);
    assert_eq!(shop.take("ann", 4), says(Status::Insufficient, 0, 3, -1));
    assert_eq!(shop.take("ann", 3), says(Status::Ok, 3, 0, -1), "a refusal is not remembered");
    assert_eq!(shop.take("bob", 4), says(Status::SoldOut, 0, 0, -1));
}

#[test]
fn the_window_says_when_it_opens() {
    let mut shop = with(Terms { total: 3, start: Some(UnixMs(5_000)), ..Terms::default() });
    assert_eq!(shop.take("ann", 1), says(Status::NotStarted, 0, 3, 5_000));
    shop.now = 5_000;
    assert_eq!(shop.take("ann", 1), says(Status::Ok, 1, 2, -1));
}

#[test]
fn a_buyers_limit_spans_orders_and_its_own_id() {
    let mut shop = with(Terms { total: 100, limit: 4, ..Terms::default() });
    assert_eq!(shop.buy("o1", 2, "ann").0, Status::Ok);
    assert_eq!(shop.buy("o2", 3, "ann"), says(Status::Limit, 0, 98, -1));
    assert_eq!(shop.take("ann", 2).0, Status::Ok, "the id ann is the buyer ann");
    assert_eq!(shop.bought("ann"), 4);
    assert_eq!(shop.buy("o3", 1, "ann").0, Status::Limit);
    assert_eq!(shop.buy("o4", 5, "bob").0, Status::Limit, "more than anybody may have");
    assert_eq!(shop.cancel("o1").0, Status::Ok);
    assert_eq!(shop.buy("o3", 2, "ann").0, Status::Ok);
    assert_eq!(shop.sale.info(shop.now()).buyers, 1);
}

#[test]
fn an_id_that_two_buyers_chose_is_the_first_ones() {
    let mut shop = shop(9);
    shop.order("o1", 2, Some("ann"), 0, "r1");
    shop.order("o2", 1, Some("ann"), 500, "r2");
    shop.hold("eve", 1, 500);
    let before = shop.sale.blocks().next();
    for id in ["o1", "o2", "eve"] {
        assert_eq!(shop.refuses(id, Some("bob")), TakeError::OtherBuyer, "{id}");
    }
    assert_eq!(shop.refuses("o1", Some("o1")), TakeError::OtherBuyer, "its buyer is not its id");
    assert_eq!(shop.refuses("o1", Some(&"x".repeat(513))), TakeError::OtherBuyer);
    assert_eq!(shop.buy("o1", 1, "ann"), names(Status::Duplicate, 2, 5, -1, "r1"));
    assert_eq!(
        shop.take("o1", 1),
        names(Status::Duplicate, 2, 5, -1, "r1"),
        "who names no buyer asks nothing of the kind"
    );
    assert_eq!(shop.buy("eve", 1, "eve"), says(Status::Duplicate, 1, 5, 1_500), "the id is its own buyer");
    assert_eq!((shop.sale.seq(), shop.sale.blocks().next()), (3, before), "nothing has changed");
    // What has expired or was cancelled has no buyer any more.
    shop.now += 500;
    shop.cancel("o1");
    assert_eq!(shop.buy("o1", 1, "bob"), names(Status::Cancelled, 0, 9, -1, "r1"));
    assert_eq!(shop.buy("o2", 1, "bob"), names(Status::Expired, 0, 9, -1, "r2"));
    shop.alter(Alteration { rebuy: Some(true), ..Alteration::default() });
    assert_eq!(shop.buy("o1", 1, "bob").0, Status::Ok);
    assert_eq!(shop.buy("o2", 1, "bob").0, Status::Ok);
    assert_eq!(shop.bought("bob"), 2);
    assert_eq!(shop.refuses("o2", Some("ann")), TakeError::OtherBuyer);
}

#[test]
fn a_sale_that_is_full_says_so_before_anything_is_told() {
    let mut shop = with(Terms { total: 9, rebuy: true, ..Terms::default() });
    shop.sale.table.most = 2;
    shop.take("ann", 1);
    shop.hold("bob", 1, 500);
    assert_eq!(shop.refuses("eve", None), TakeError::Full { orders: 2 });
    assert_eq!(shop.take("eve", 8), says(Status::Insufficient, 0, 7, -1), "nothing would be entered");
    assert_eq!(shop.take("ann", 1), says(Status::Duplicate, 1, 7, -1));
    shop.now += 500;
    assert_eq!(shop.take("bob", 1), says(Status::Ok, 1, 7, -1), "in the place of its own earlier order");
}

#[test]
fn with_rebuy_expired_and_cancelled_ids_buy_again() {
    let mut shop = with(Terms { total: 5, limit: 3, rebuy: true, ..Terms::default() });
    shop.order("ann", 2, Some("family"), 500, "first");
    shop.now += 500;
    assert_eq!(shop.order("ann", 3, Some("friends"), 500, "second"), names(Status::Ok, 3, 2, 2_000, "second"));
    assert_eq!((shop.bought("family"), shop.bought("friends")), (0, 3));
    assert_eq!(shop.cancel("ann").0, Status::Ok);
    assert_eq!(shop.order("ann", 4, None, 0, ""), names(Status::Limit, 0, 5, -1, "second"), "its stored reference");
    assert_eq!(shop.take("ann", 1), says(Status::Ok, 1, 4, -1));
    assert_eq!((shop.bought("friends"), shop.bought("ann")), (0, 1));
    assert_eq!(shop.take("ann", 1), says(Status::Duplicate, 1, 4, -1));
    let info = shop.sale.info(shop.now());
    assert_eq!((shop.sale.orders(), info.buyers), (1, 1), "one order, however often it was used");
}

#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn buying_again_and_again_leaves_nothing_behind() {
    let mut shop = with(Terms { total: 5, rebuy: true, ..Terms::default() });
    shop.take("again", 1);
    let alone = shop.sale.memory();
    shop.cancel("again");
    shop.take("again", 1);
    assert_eq!(shop.sale.memory(), alone, "it does not share its buyer with itself");
    shop.cancel("again");
    shop.buy("other", 1, "ann");
    let mut memory = Vec::new();
    for round in 100..400 {
        // As its own buyer, as ann, who has another order, and as a new buyer with two.
        for buyer in [None, Some("ann".to_owned()), Some(format!("buyer {round}")), None] {
            let ann = buyer.as_deref() == Some("ann");
            assert_eq!(shop.order("again", 1, buyer.as_deref(), 0, "").0, Status::Ok);
            assert_eq!(shop.sale.info(shop.now()).buyers, if ann { 1 } else { 2 });
            assert_eq!(shop.order("too", 1, buyer.as_deref(), 0, "").0, Status::Ok);
            assert_eq!(shop.cancel("again").0, Status::Ok);
            assert_eq!(shop.cancel("too").0, Status::Ok);
        }
        memory.push(shop.sale.memory());
    }
    assert_eq!(memory[20], memory[299]);
}

#[test]
fn a_missing_sale_is_never_an_empty_one() {
    assert_eq!(row(&Answer::NO_STOCK), says(Status::NoStock, 0, 0, -1));
    let words = Status::WORDS.map(|(status, _)| status.word()).join(" ");
    let contract =
        "OK DUPLICATE SOLDOUT INSUFFICIENT LIMIT NOTSTARTED ENDED EXPIRED CANCELLED QUEUED SKIPPED NOORDER NOSTOCK";
    assert_eq!(words, contract);
    assert!(Status::WORDS.iter().enumerate().all(|(number, (status, _))| *status as usize == number));
}
