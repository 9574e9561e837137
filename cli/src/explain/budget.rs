//! Rule of `integrahub explain` about the monthly budget of the API key's tenant.

use access::SpentItem;
use jiff::Timestamp;

use super::rule::Rule;

const NAME: &str = "budget";

/// Checks whether the tenant's monthly budget refuses requests, and returns the result. Returns
/// `None` if the amount spent is unknown; the API then refuses no request because of the budget.
pub(super) fn decide(spent: Option<&SpentItem>, now: Timestamp) -> Option<Rule> {
    let spent = spent?;
    let said = format!("{} was spent in {}", spent.amount, spent.month);
    Some(match spent.refuses_for(now) {
        Some(_) => Rule::broken(NAME, format!("{said}, and the budget refuses more: integrahub budget set")),
        None => Rule::holds(NAME, said),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::rule::Verdict;
    use super::*;

    #[test]
    fn a_budget_refuses_if_it_is_spent_in_this_month_and_says_so() {
        let now: Timestamp = "2026-11-27T10:00:00Z".parse().unwrap();
        let verdict = |month: &str, exceeded: bool, refuse: bool| {
            let item = json!({"month": month, "amount": "100", "exceeded": exceeded, "refuse": refuse});
            decide(SpentItem::read(item).ok().as_ref(), now).map(|rule| rule.verdict)
        };
        assert_eq!(verdict("2026-11", true, true), Some(Verdict::Broken));
        assert_eq!(verdict("2026-11", true, false), Some(Verdict::Holds));
        assert_eq!(verdict("2026-11", false, true), Some(Verdict::Holds));
        assert_eq!(verdict("2026-10", true, true), Some(Verdict::Holds));
        assert!(decide(None, now).is_none());
    }
}
