//! `lockstock-outbox` with real servers and real databases, all of which are killed, frozen and robbed while it works.
//!
//! Each test runs with every database: `sqlite::…`, `postgres::…` and `mariadb::…`. The last two need the distribution's packages
//! (`make test-outbox` installs them). `LOCKSTOCK_SERVER` names the server.
#![expect(clippy::doc_markdown, reason = "databases have names like MariaDB")]
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_precision_loss,
    reason = "here a panic is a failed test, not a dead server"
)]

mod bench;
mod databases;
mod killed;
mod names;
mod past;
mod support;
mod together;
mod usage;

/// Every test of this list, with every database.
macro_rules! with_every_database {
    ($($module:ident: $($test:ident),+;)+) => {
        with_every_database!(@ sqlite Sqlite { $($($module $test)+)+ });
        with_every_database!(@ postgres Postgres { $($($module $test)+)+ });
        with_every_database!(@ mariadb MariaDb { $($($module $test)+)+ });
    };
    (@ $name:ident $kind:ident { $($module:ident $test:ident)+ }) => {
        mod $name {
            $(
                #[test]
                fn $test() {
                    crate::$module::$test(crate::databases::Kind::$kind);
                }
            )+
        }
    };
}

with_every_database! {
    killed:
        an_outbox_that_is_killed_writes_every_event_once,
        a_server_that_is_killed_loses_nothing,
        a_frozen_server_is_waited_for,
        a_database_that_is_killed_loses_nothing,
        a_frozen_database_is_waited_for,
        a_failover_by_sentinel_is_followed;
    past:
        a_stream_that_was_trimmed_too_early_stops_its_sale_only,
        an_emptied_stream_stops_its_sale,
        a_sale_that_was_created_anew_stops_and_is_reconciled,
        a_stream_that_an_earlier_sale_had_stops_its_sale,
        a_sale_that_was_renamed_to_another_stops_and_is_reconciled,
        tables_without_the_stream_go_on,
        a_promotion_that_lost_changes_stops_and_is_reconciled,
        a_start_from_an_old_file_stops_and_is_reconciled,
        a_promotion_that_lost_nothing_is_followed,
        what_differs_is_mended,
        a_sale_that_is_deleted_while_it_is_compared_keeps_its_orders,
        what_is_no_event_is_named;
    together:
        a_second_outbox_stands_in_line,
        two_outboxes_with_a_sale_each_stand_in_line_for_the_other,
        a_sale_that_was_deleted_is_written_after_a_failure,
        a_sale_that_was_renamed_is_followed,
        once_ends_though_events_go_on,
        an_outbox_that_was_frozen_writes_nothing_more,
        many_sales_are_followed,
        what_is_written_is_trimmed;
    names:
        names_are_stored_as_they_are,
        every_state_is_written,
        a_sale_without_events_has_a_time,
        an_order_is_sold_only_if_the_sale_says_so,
        a_sale_without_deadlines_is_written,
        a_batch_of_the_longest_names_is_written;
    usage:
        a_failure_is_reported_once_a_minute,
        a_table_of_another_shape_is_refused,
        another_prefix_has_tables_of_its_own;
}
