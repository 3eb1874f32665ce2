"""`rule_swap_v1`: docs/decisions/0013-conventions.md, Planning."""

from joulie_core.policy.rule_swap_v1 import RuleSwap, RuleSwapSettings

POLICY = RuleSwap(RuleSwapSettings())


def test_which_of_the_first_two_nodes_is_eco_alternates_with_the_interval(nodes, context, performance):
    def eco(now):
        plan = POLICY.plan(context(nodes(4), now=now))
        return set(plan.profiles) - performance(plan)

    turns = [eco(now) for now in (0, 59.9, 60, 119.9, 120)]
    assert turns == [{"node-0"}, {"node-0"}, {"node-1"}, {"node-1"}, {"node-0"}]


def test_a_single_node_alternates_between_the_profiles(nodes, context, performance):
    plans = [POLICY.plan(context(nodes(1), now=now)) for now in (0, 60)]
    assert [plan.performance_count for plan in plans] == [0, 1]
    assert [performance(plan) for plan in plans] == [set(), {"node-0"}]
