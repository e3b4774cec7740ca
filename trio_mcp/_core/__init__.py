"""The rules of the protocol as plain functions and tables: no I/O, no Trio, no clock."""
