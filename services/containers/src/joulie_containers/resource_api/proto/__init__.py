"""Messages of the wire, generated from the `.proto` files here by `just protos`."""
