//! Tests of an administrator's changes to the owners of establishments, of the lists of owners, and
//! of the owners that the migration assigns.

use std::time::Duration;

use catalog::{
    ChangedOwners, DatabaseError, OwnedEstablishment, OwnerChange, OwnerFilter, OwnerRequest, RefusedOwner,
};
use ingestion::Cnpj;
use runtime::Envelope;
use test_support::log::Sink;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{even, move_to_other, owner};
use crate::support::{Item, Load, OTHER_TENANT, TENANT, cnpj, database_test, product};

const ASSIGN: OwnerChange = OwnerChange::Assign { tenant: TENANT };
const MOVE: OwnerChange = OwnerChange::Move { from: TENANT, to: OTHER_TENANT };
const RELEASE: OwnerChange = OwnerChange::Release { tenant: OTHER_TENANT };

const fn request(change: OwnerChange, cnpjs: &[Cnpj]) -> OwnerRequest<'_> {
    OwnerRequest { change, cnpjs, by: "ana@example.com", dry_run: false }
}

/// Returns 80 CNPJs in order, more than one transaction of an owner change takes.
fn many() -> Vec<Cnpj> {
    let mut cnpjs: Vec<Cnpj> = (100..180).map(cnpj).collect();
    cnpjs.sort_unstable();
    cnpjs
}

#[test]
fn establishments_are_assigned_moved_and_released_once() {
    database_test(async |test| {
        let (database, cnpjs) = (test.open(), many());
        for change in [ASSIGN, MOVE, RELEASE] {
            let dry_run = OwnerRequest { dry_run: true, ..request(change, &cnpjs) };
            let expected = ChangedOwners { changed: cnpjs.clone(), ..ChangedOwners::default() };
            assert_eq!(database.change_owners(dry_run).await.unwrap(), expected, "{change:?}");
            assert_eq!(database.change_owners(request(change, &cnpjs)).await.unwrap(), expected);
            let repeated = ChangedOwners { unchanged: cnpjs.clone(), ..ChangedOwners::default() };
            assert_eq!(database.change_owners(request(change, &cnpjs)).await.unwrap(), repeated);
        }
        assert_eq!(test.number("SELECT count(*) FROM establishments").await, 0);
    });
}

/// Checks that a change of owners logs each of its transactions, so that the log is right even if a
/// later one fails, and that a dry run logs nothing.
#[test]
fn each_transaction_of_a_change_is_logged_and_a_dry_run_is_not() {
    database_test(async |test| {
        let (database, cnpjs) = (test.open(), many());
        let sink = Sink::default();
        let make_writer = sink.clone();
        let subscriber = tracing_subscriber::registry().with(Envelope::to(move || make_writer.clone()));
        let changes = async {
            let dry_run = OwnerRequest { dry_run: true, ..request(ASSIGN, &cnpjs) };
            database.change_owners(dry_run).await.unwrap();
            database.change_owners(request(ASSIGN, &cnpjs)).await.unwrap();
        };
        changes.with_subscriber(subscriber).await;
        let lines = sink.lines();
        let assigned = lines.iter().filter(|line| line["event_type"] == "establishments.assigned");
        let logged: Vec<&str> =
            assigned.map(|line| line["context"]["cnpjs"].as_str().unwrap_or_default()).collect();
        assert_eq!(logged.len(), 3, "{logged:?}");
        let names: Vec<&str> = cnpjs.iter().map(Cnpj::as_str).collect();
        assert_eq!(logged.join(" "), names.join(" "));
    });
}

#[test]
fn what_belongs_to_a_third_tenant_is_refused_with_its_owner_and_the_others_are_changed() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(1).keys([2]).of_other_tenant().run(&database).await;
        let (theirs, free) = (even(), cnpj(1));
        let twice = [free, theirs, free];
        let answer = database.change_owners(request(ASSIGN, &twice)).await.unwrap();
        assert_eq!((answer.changed, answer.unchanged), (vec![free], vec![]));
        assert_eq!(answer.refused, [RefusedOwner { cnpj: theirs, owner: Some(OTHER_TENANT) }]);
        let release = OwnerChange::Release { tenant: TENANT };
        let answer = database.change_owners(request(release, &[theirs])).await.unwrap();
        assert_eq!(answer.refused, [RefusedOwner { cnpj: theirs, owner: Some(OTHER_TENANT) }]);
        let nobodys = cnpj(7);
        let answer = database.change_owners(request(MOVE, &[nobodys])).await.unwrap();
        assert_eq!(answer.refused, [RefusedOwner { cnpj: nobodys, owner: None }]);
    });
}

/// Checks that an administrator's change of an owner waits for the lock of the establishment, which
/// a chunk holds until it commits.
#[test]
fn an_owner_is_changed_under_the_lock_of_the_establishment() {
    const LOCK: &str = "SELECT count(pg_advisory_xact_lock(x'636e706a00000000'::bigint \
             + (get_byte(hash, 0) * 256 + get_byte(hash, 1)) % 16384)) \
         FROM (SELECT DISTINCT sha256(cnpj::text::bytea) AS hash FROM products) AS p";
    database_test(async |test| {
        let database = test.open();
        Load::delta(1).keys([2]).run(&database).await;
        test.execute("BEGIN").await;
        assert_eq!(test.number(LOCK).await, 1);
        let hasty = test.open().with_budget(Duration::from_secs(1));
        let error = hasty.change_owners(request(MOVE, &[even()])).await.unwrap_err();
        assert!(matches!(error, DatabaseError::TimedOut), "{error:?}");
        let even = [even()];
        let dry_run = OwnerRequest { dry_run: true, ..request(MOVE, &even) };
        assert_eq!(test.open().change_owners(dry_run).await.unwrap().changed, even, "it takes no lock");
        test.execute("COMMIT").await;
        let [even] = even;
        assert_eq!(owner(test, even).await, Some(TENANT));
        move_to_other(&database).await;
    });
}

#[test]
fn establishments_are_listed_in_pages_with_who_assigned_them() {
    database_test(async |test| {
        let (database, cnpjs) = (test.open(), many());
        database.change_owners(request(ASSIGN, &cnpjs)).await.unwrap();
        Load::delta(1).keys([2]).of_other_tenant().run(&database).await;
        let all = OwnerFilter { tenant: Some(TENANT), cnpj: None };
        let (mut found, mut after): (Vec<OwnedEstablishment>, _) = (Vec::new(), None);
        loop {
            let page = database.owned_establishments(&all, after, 32).await.unwrap();
            after = page.last().map(|last| last.cnpj);
            found.extend(page);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found.iter().map(|found| found.cnpj).collect::<Vec<_>>(), cnpjs);
        assert!(found.iter().all(|found| found.assigned_by == "ana@example.com"));
        let one = OwnerFilter { cnpj: Some(even()), ..OwnerFilter::default() };
        let found = database.owned_establishments(&one, None, 10).await.unwrap();
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!((found.tenant_id, found.assigned_by.as_str()), (OTHER_TENANT, "first load"));
        let both = OwnerFilter { tenant: Some(TENANT), ..one };
        assert!(database.owned_establishments(&both, None, 10).await.unwrap().is_empty());
    });
}

#[test]
fn the_upgrade_assigns_to_the_tenant_of_the_last_batch_and_leaves_what_it_cannot_tell() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4]).run(&database).await;
        move_to_other(&database).await;
        Load::delta(2).keys([2]).of_other_tenant().run(&database).await;
        let odd = cnpj(1);
        Load::full(3).keys([1, 3]).run(&database).await;
        // A batch that wrote nothing says nothing.
        Load::full(4).keys([1, 2]).prepare(&database).await;
        let mut alone = product(Item::of(0, 0));
        alone.key.cnpj = cnpj(50);
        let forgotten = Load::delta(5).products([alone]);
        forgotten.run(&database).await;
        test.execute(&format!("DELETE FROM batches WHERE batch_id = '{}'", forgotten.id())).await;
        test.execute("DROP TABLE establishments; ALTER TABLE batch_cnpjs DROP COLUMN refused").await;

        test.execute(include_str!("../../../migrations/V14__establishments.sql")).await;
        let found = database.owned_establishments(&OwnerFilter::default(), None, 10).await.unwrap();
        let mut found: Vec<_> =
            found.iter().map(|found| (found.cnpj, found.tenant_id, found.assigned_by.as_str())).collect();
        found.sort_unstable_by_key(|(.., by)| by.len());
        let disputed = "upgrade: several tenants loaded it";
        assert_eq!(found, [(odd, TENANT, "upgrade"), (even(), OTHER_TENANT, disputed)]);
        assert_eq!(database.unowned_establishments(None, 10).await.unwrap(), [cnpj(50)]);
        assert!(database.unowned_establishments(Some(cnpj(50)), 10).await.unwrap().is_empty());
        // Loads go on as before.
        Load::full(6).keys([1]).run(&test.open()).await;
        assert_eq!(test.number("SELECT count(*) FROM products WHERE NOT active").await, 1);
    });
}
