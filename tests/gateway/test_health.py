"""An upstream's health from its probes."""

from lumbre.gateway.health import Health, HealthState, probed_badly, probed_well


def test_one_good_probe_brings_it_back() -> None:
    assert probed_well() == Health(HealthState.READY)


def test_so_many_failures_in_a_row_take_it_out_and_one_less_does_not() -> None:
    health = probed_well()
    for count in (1, 2):
        health = probed_badly(health, "no answer", 3)
        assert (health.state, health.failures, health.reason) == ("ready", count, None)
    assert probed_badly(health, "no answer", 3) == Health(HealthState.DOWN, 3, "no answer")


def test_a_good_probe_between_starts_the_count_anew() -> None:
    health = probed_badly(probed_badly(probed_well(), "x", 3), "x", 3)
    health = probed_badly(probed_well(), "x", 3)
    health = probed_badly(health, "x", 3)
    assert health.state == "ready"


def test_one_that_was_never_up_is_down_at_its_first_failure() -> None:
    assert probed_badly(Health(), "refused", 3).state == "down"
