"""The Node Resource Interface: multiplexer, ttrpc, messages, registration and reconnection."""
