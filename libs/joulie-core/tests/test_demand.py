import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import Demand, WorkloadClass, classify, unknown_annotation, workload_class
from joulie_core.labels import DRAINING, POWER_PROFILE, WORKLOAD_CLASS
from joulie_core.pod import NAME_FIELD, Pod, Requirement, SelectorOperator, Term

ZONE = "topology.kubernetes.io/zone"


def profile(operator, *values):
    return Requirement(POWER_PROFILE, operator, values)


def draining(operator, *values):
    return Requirement(DRAINING, operator, values)


def affine(*terms, **kwargs):
    return Pod("p", required_terms=tuple(Term(term) for term in terms), **kwargs)


NOT_ECO = profile(SelectorOperator.NOT_IN, "eco")
ON_ECO = profile(SelectorOperator.IN, "eco")
ON_PERFORMANCE = profile(SelectorOperator.IN, "performance")
NOT_DRAINING = draining(SelectorOperator.NOT_IN, "true")
SOME_ZONE = Requirement(ZONE, SelectorOperator.IN, ("a",))
NAMED = Requirement(NAME_FIELD, SelectorOperator.IN, ("n1",))


@pytest.mark.parametrize(
    ("pod", "demand"),
    [
        pytest.param(Pod("p"), Demand.GENERAL, id="no constraint"),
        pytest.param(Pod("p", annotations={WORKLOAD_CLASS: "performance"}), Demand.PERFORMANCE, id="annotation"),
        pytest.param(Pod("p", annotations={WORKLOAD_CLASS: "standard"}), Demand.GENERAL, id="standard"),
        pytest.param(Pod("p", annotations={WORKLOAD_CLASS: "best-effort"}), Demand.GENERAL, id="unknown annotation"),
        pytest.param(Pod("p", labels={WORKLOAD_CLASS: "performance"}), Demand.GENERAL, id="a label is no annotation"),
        pytest.param(
            Pod("p", node_selector={POWER_PROFILE: "performance"}), Demand.PERFORMANCE, id="selector performance"
        ),
        pytest.param(Pod("p", node_selector={POWER_PROFILE: "eco"}), Demand.ECO, id="selector eco"),
        pytest.param(Pod("p", node_selector={ZONE: "a"}), Demand.GENERAL, id="selector elsewhere"),
        pytest.param(Pod("p", node_selector={POWER_PROFILE: "turbo"}), Demand.GENERAL, id="selector neither"),
        pytest.param(affine((NOT_ECO,)), Demand.PERFORMANCE, id="excludes eco"),
        pytest.param(affine((profile(SelectorOperator.IN, "performance"),)), Demand.PERFORMANCE, id="in performance"),
        pytest.param(affine((profile(SelectorOperator.IN, "performance", "eco"),)), Demand.GENERAL, id="both allowed"),
        pytest.param(affine((ON_ECO,)), Demand.ECO, id="in eco"),
        pytest.param(affine((ON_ECO, NOT_DRAINING)), Demand.ECO, id="eco that excludes draining"),
        pytest.param(
            affine((profile(SelectorOperator.NOT_IN, "performance"), NOT_DRAINING)), Demand.ECO, id="not performance"
        ),
        pytest.param(affine((NOT_DRAINING,)), Demand.GENERAL, id="excludes draining only"),
        pytest.param(affine((draining(SelectorOperator.IN, "true"),)), Demand.GENERAL, id="only draining"),
        pytest.param(affine((draining(SelectorOperator.DOES_NOT_EXIST),)), Demand.GENERAL, id="draining label absent"),
        pytest.param(affine((profile(SelectorOperator.EXISTS),)), Demand.GENERAL, id="any managed node"),
        pytest.param(affine((profile(SelectorOperator.DOES_NOT_EXIST),)), Demand.GENERAL, id="unmanaged nodes only"),
        pytest.param(affine((profile(SelectorOperator.GT, "1"),)), Demand.GENERAL, id="greater than a word"),
        pytest.param(
            affine((ON_PERFORMANCE, profile(SelectorOperator.EXISTS))), Demand.PERFORMANCE, id="performance, managed"
        ),
        pytest.param(
            affine((ON_PERFORMANCE, profile(SelectorOperator.DOES_NOT_EXIST))),
            Demand.GENERAL,
            id="performance, unmanaged",
        ),
        pytest.param(
            affine((ON_PERFORMANCE, profile(SelectorOperator.LT, "1"))), Demand.GENERAL, id="performance, less than"
        ),
        pytest.param(
            affine((ON_PERFORMANCE, draining(SelectorOperator.IN, "false"))),
            Demand.PERFORMANCE,
            id="performance that is labelled as not draining",
        ),
        pytest.param(
            affine((ON_PERFORMANCE, draining(SelectorOperator.DOES_NOT_EXIST))),
            Demand.PERFORMANCE,
            id="performance without draining label",
        ),
        pytest.param(
            affine((ON_ECO, draining(SelectorOperator.IN, "true"))), Demand.ECO, id="eco, reached by draining only"
        ),
        pytest.param(affine((SOME_ZONE,)), Demand.GENERAL, id="other key"),
        pytest.param(affine((SOME_ZONE, NOT_ECO)), Demand.PERFORMANCE, id="other key and not eco"),
        pytest.param(affine((NOT_ECO,), (SOME_ZONE,)), Demand.GENERAL, id="terms are alternatives"),
        pytest.param(affine((NOT_ECO,), (SOME_ZONE, NOT_ECO)), Demand.PERFORMANCE, id="every alternative excludes eco"),
        pytest.param(affine((NOT_ECO,), (ON_ECO,)), Demand.GENERAL, id="either profile by term"),
        pytest.param(affine((NOT_ECO, ON_ECO)), Demand.GENERAL, id="contradiction within a term"),
        pytest.param(affine((NOT_ECO, ON_ECO), (ON_ECO,)), Demand.ECO, id="contradictory term is no way"),
        pytest.param(affine((), (NOT_ECO,)), Demand.PERFORMANCE, id="an empty term matches no node"),
        pytest.param(Pod("p", required_terms=()), Demand.GENERAL, id="no term matches no node"),
        pytest.param(
            affine((SOME_ZONE,), node_selector={POWER_PROFILE: "performance"}),
            Demand.PERFORMANCE,
            id="selector and affinity",
        ),
        pytest.param(
            affine((ON_ECO,), node_selector={POWER_PROFILE: "performance"}),
            Demand.GENERAL,
            id="selector against affinity",
        ),
        pytest.param(affine((profile(SelectorOperator.IN),)), Demand.GENERAL, id="in nothing"),
        pytest.param(Pod("p", required_terms=(Term(fields=(NAMED,)),)), Demand.GENERAL, id="fields only"),
        pytest.param(
            Pod("p", required_terms=(Term((NOT_ECO,), (NAMED,)),)), Demand.PERFORMANCE, id="fields and not eco"
        ),
        pytest.param(
            affine((NOT_ECO,), annotations={WORKLOAD_CLASS: "standard"}),
            Demand.PERFORMANCE,
            id="constraints over standard",
        ),
        pytest.param(
            affine((ON_ECO,), annotations={WORKLOAD_CLASS: "performance"}), Demand.PERFORMANCE, id="annotation over eco"
        ),
    ],
)
def test_demand_follows_annotation_and_required_constraints(pod, demand):
    assert classify(pod) is demand
    assert workload_class(pod) is (
        WorkloadClass.PERFORMANCE if demand is Demand.PERFORMANCE else WorkloadClass.STANDARD
    )


@pytest.mark.parametrize(
    ("value", "unknown"), [("performance", None), ("standard", None), ("Performance", "Performance"), ("", "")]
)
def test_an_unknown_annotation_is_returned_for_one_warning(value, unknown):
    assert unknown_annotation(Pod("p", annotations={WORKLOAD_CLASS: value})) == unknown
    assert unknown_annotation(Pod("p")) is None


requirements = st.builds(
    Requirement,
    st.sampled_from([POWER_PROFILE, DRAINING, ZONE]),
    st.sampled_from(SelectorOperator),
    st.lists(st.sampled_from(["eco", "performance", "true", "false", "a"]), max_size=3).map(tuple),
)
terms = st.lists(
    st.builds(Term, st.lists(requirements, max_size=3).map(tuple), st.sampled_from([(), (NAMED,)])),
    min_size=1,
    max_size=3,
)


@given(terms)
def test_order_of_terms_and_expressions_does_not_matter(alternatives):
    mirrored = tuple(Term(term.expressions[::-1], term.fields) for term in reversed(alternatives))
    assert classify(Pod("p", required_terms=tuple(alternatives))) is classify(Pod("p", required_terms=mirrored))


@given(terms)
def test_an_alternative_without_constraints_makes_the_pod_general(alternatives):
    anywhere = Term((SOME_ZONE,))
    assert classify(Pod("p", required_terms=(*alternatives, anywhere))) is Demand.GENERAL


@given(terms)
def test_swapping_the_profiles_swaps_the_demand(alternatives):
    swap = {"eco": "performance", "performance": "eco"}
    swapped = tuple(
        Term(
            tuple(Requirement(r.key, r.operator, tuple(swap.get(v, v) for v in r.values)) for r in term.expressions),
            term.fields,
        )
        for term in alternatives
    )
    mirror = {Demand.ECO: Demand.PERFORMANCE, Demand.PERFORMANCE: Demand.ECO, Demand.GENERAL: Demand.GENERAL}
    assert classify(Pod("p", required_terms=swapped)) is mirror[classify(Pod("p", required_terms=tuple(alternatives)))]
