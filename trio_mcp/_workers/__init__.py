"""Several processes that serve one server behind one listening socket."""
