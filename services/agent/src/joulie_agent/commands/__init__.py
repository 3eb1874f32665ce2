"""Commands of the `joulie-agent` executable beside the controller and the actuator."""
